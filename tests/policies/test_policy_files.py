"""Policies on disk: exact, whole, refused by name, and never code."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import polychromic
from polychromic.envs.grid.codes import CODE_TRIPLES
from polychromic.envs.grid.fit import unseen_word
from polychromic.envs.grid.missions import WORDS, token_table
from polychromic.errors import UserError
from polychromic.policies.files import PolicyInfo, SavedPolicy, load_policy, save_policy
from polychromic.policies.fit import check_fits
from polychromic.policies.networks import cnn_policy, mlp_policy
from polychromic.policies.protocol import Policy
from polychromic.policies.tensors import write_tensors

TRIPLES = CODE_TRIPLES.tolist()


@pytest.fixture(scope="module")
def mlp():
    return mlp_policy(cells=49, code_triples=TRIPLES, hidden=(4,))


@pytest.fixture
def saved(mlp, tmp_path):
    path = tmp_path / "policy.safetensors"
    params = mlp.init(jax.random.key(5))
    info = PolicyInfo(
        task="MiniGrid-FourRooms-v0", observation="partial", vocabulary=WORDS, configurations=(3, 4), made={"seed": 5}
    )
    save_policy(path, mlp, params, info)
    return path, params


def test_a_saved_policy_comes_back_bit_for_bit(mlp, saved):
    path, params = saved
    for policy in (None, mlp):
        found = load_policy(path, policy)
        assert jax.tree.structure(found.params) == jax.tree.structure(params)
        for one, other in zip(jax.tree.leaves(found.params), jax.tree.leaves(params), strict=True):
            np.testing.assert_array_equal(one, other)
        assert found.info.configurations == (3, 4)
        assert found.info.made == {"seed": 5}
        assert found.info.vocabulary == WORDS


def test_a_failed_save_leaves_the_old_file(mlp, saved):
    path, _ = saved
    before = path.read_bytes()
    with pytest.raises(TypeError):
        save_policy(path, mlp, mlp.init(jax.random.key(0)), PolicyInfo(made={"not JSON": object()}))
    with pytest.raises(Exception, match=r".*"):
        write_tensors(path, {"text": np.array(["a"])}, {"format": "x", "header": "{}"})
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_truncated_and_foreign_files_are_refused_by_name(saved, tmp_path):
    path, _ = saved
    whole = path.read_bytes()
    for size in (0, 5, 200, len(whole) - 1):
        cut = tmp_path / f"cut-{size}.safetensors"
        cut.write_bytes(whole[:size])
        with pytest.raises(UserError, match=f"{cut.name}.*not a complete safetensors file"):
            load_policy(cut)
    foreign = tmp_path / "foreign.safetensors"
    save_file({"weight": np.zeros(3, np.float32)}, foreign)
    with pytest.raises(UserError, match=r"foreign.safetensors: format is None"):
        load_policy(foreign)
    pickled = tmp_path / "pickled.safetensors"
    import pickle

    pickled.write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(UserError, match=r"pickled.safetensors"):
        load_policy(pickled)
    with pytest.raises(UserError, match="nowhere: no such file, and no shipped policy"):
        load_policy("nowhere")


def rewrite(path, tensors=None, header=None):
    from safetensors import safe_open

    with safe_open(str(path), framework="numpy") as file:
        metadata = {name: text for name, text in file.metadata().items() if name != "checksum"}  # as earlier versions
    if header is not None:
        metadata["header"] = header(metadata["header"])
    save_file(load_file(path) if tensors is None else tensors(load_file(path)), path, metadata)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: {k: v for k, v in t.items() if k != "actor/head/bias"}, r"missing \['actor/head/bias'\]"),
        (lambda t: {**t, "actor/extra": np.zeros(2, np.float32)}, r"unknown \['actor/extra'\]"),
        (lambda t: {**t, "actor/head/bias": np.zeros(3, np.float32)}, r"'actor/head/bias' is float32 \(3,\), expected"),
        (lambda t: {**t, "actor/head/bias": np.zeros(7, np.float64)}, r"'actor/head/bias' is float64"),
    ],
)
def test_other_parameters_are_refused_by_name(saved, change, message):
    path, _ = saved
    rewrite(path, tensors=change)
    with pytest.raises(UserError, match=message):
        load_policy(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h: h[:-1], "header is not JSON"),
        (lambda _: "[1, 2]", "policy.safetensors: header is a list, expected a JSON object"),
        (
            lambda h: h.replace('"configurations": [3, 4]', '"configurations": [3, "4"]'),
            r"'configurations\[1\]' is a string; it must be a whole number",
        ),
        (lambda h: h.replace('"hidden": [4]', '"hidden": [-4]'), "policy.safetensors: architecture"),
        (lambda h: h.replace('"hidden": [4]', '"hidden": ["x"]'), "policy.safetensors: architecture"),
        (
            lambda h: h.replace('"task": "MiniGrid-FourRooms-v0"', '"task": 3'),
            "'task' is a whole number; it must be a string",
        ),
        (lambda h: h.replace('"network": "mlp"', '"network": "os.system"'), "network is 'os.system'"),
        (lambda h: h.replace('"hidden": [4]', '"hidden": [5]'), "expected float32"),
        (lambda h: h.replace('"hidden": [4]', '"depth": [4]'), "policy.safetensors: .*depth"),
    ],
)
def test_other_headers_are_refused_by_name(saved, change, message):
    path, _ = saved
    rewrite(path, header=change)
    with pytest.raises(UserError, match=message):
        load_policy(path)


def test_your_own_network_must_be_the_one_in_the_file(saved, mlp, tmp_path):
    path, _ = saved
    other = mlp_policy(cells=49, code_triples=TRIPLES, hidden=(6,))
    with pytest.raises(UserError, match=r"architecture: 'hidden' is \[4\] in the file, \[6\] in your policy"):
        load_policy(path, other)
    own = Policy("mine", mlp.init, mlp.apply, {"made_by": "me"})
    save_policy(tmp_path / "own.safetensors", own, mlp.init(jax.random.key(0)))
    with pytest.raises(UserError, match=r"network is None, which is not a built-in network.*give your own"):
        load_policy(tmp_path / "own.safetensors")
    assert load_policy(tmp_path / "own.safetensors", own).policy is own


def test_a_world_that_does_not_fit_is_refused(saved, tmp_path):
    path, _ = saved
    fourrooms = load_policy(path)
    check_fits(fourrooms, polychromic.make("fourrooms", seeds=[0]))
    with pytest.raises(
        UserError, match=r"policy.safetensors: task is MiniGrid-FourRooms-v0, the world runs BabyAI-GoTo"
    ):
        check_fits(fourrooms, polychromic.make("goto", seeds=[0]))
    with pytest.raises(UserError, match="observation is 'partial', the world shows 'full'"):
        check_fits(fourrooms, polychromic.make("fourrooms", seeds=[0], observation="full"))
    policy = cnn_policy(width=7, height=7, code_triples=TRIPLES, num_words=len(WORDS))
    info = PolicyInfo(task="BabyAI-GoTo-v0", observation="partial", vocabulary=WORDS, words_seen=("go", "to", "the"))
    save_policy(tmp_path / "goto.safetensors", policy, policy.init(jax.random.key(0)), info)
    goto = load_policy(tmp_path / "goto.safetensors")
    with pytest.raises(UserError, match=r"goto.safetensors: words_seen has no 'a'|words_seen has no '"):
        check_fits(goto, polychromic.make("goto", seeds=[0]))
    with pytest.raises(UserError, match="words_seen has no 'pick', word 1 of the mission 'pick up"):
        check_fits(goto, polychromic.make("pickup", seeds=[0]), other_task=True)


def test_a_vocabulary_that_means_other_words_is_refused():
    policy = cnn_policy(
        width=7, height=7, code_triples=TRIPLES, num_words=len(WORDS), channels=(2, 2, 2), word_units=2, head_units=2
    )
    world, params = polychromic.make("goto", seeds=[0]), policy.init(jax.random.key(0))

    def check(vocabulary):
        info = PolicyInfo(task=world.task, observation="partial", vocabulary=tuple(vocabulary))
        check_fits(SavedPolicy(policy, params, replace(info, source="goto.safetensors")), world)

    check(WORDS)
    swapped = [*WORDS[:20], WORDS[21], WORDS[20], *WORDS[22:]]
    with pytest.raises(UserError, match=r"goto.safetensors: vocabulary: token 20 is 'green', to the world it is 'red'"):
        check(swapped)
    with pytest.raises(UserError, match=r"goto.safetensors: vocabulary has 55 words, the network's num_words is 56"):
        check(WORDS[:-1])
    with pytest.raises(UserError, match=r"vocabulary: token 55 is 'zebra', to the world it is 'maze'"):
        check([*WORDS[:-1], "zebra"])


def test_a_word_without_a_token_is_refused():
    def unseen(vocabulary, mission):
        return unseen_word({"vocabulary": vocabulary, "words_seen": ()}, [mission], token_table([mission]))

    assert "'<unknown>', word 4 of the mission 'go to the zebra'" in unseen(WORDS, "go to the zebra")
    assert "'?', word 3" in unseen(WORDS[:5], "go to the box")
    assert unseen(WORDS, "go to the box") == ""
