"""The example: its rules by hand, and a few steps of everything in it."""

from dataclasses import replace

import pytest
import tasks
from plain_grpo import train as train_plainly
from train import Settings, main, train


@pytest.mark.parametrize(
    ("name", "prompt", "completion", "right", "answer"),
    [
        ("digits", "7=", "34", True, "34"),
        ("digits", "7=", "43", True, "43"),
        ("digits", "7=", "35", False, "35"),
        ("digits", "7=", "7", False, None),
        ("digits", "7=", "340", False, None),
        ("chains", "3>8:", "*2=6+2=8", True, (("*", "2", "6"), ("+", "2", "8"))),
        ("chains", "3>8:", "+6=9-1=8", True, (("+", "6", "9"), ("-", "1", "8"))),
        ("chains", "3>8:", "*2=6+3=8", False, (("*", "2", "6"), ("+", "3", "8"))),  # the second step is wrong
        ("chains", "3>8:", "*2=5+3=8", False, (("*", "2", "5"), ("+", "3", "8"))),  # the first step is wrong
        ("chains", "3>8:", "*2=6+1=7", False, (("*", "2", "6"), ("+", "1", "7"))),  # not the target
        ("chains", "3>8:", "+5=8", False, (("+", "5", "8"),)),  # one step only
        ("chains", "3>8:", "*2=6+2=8+", False, (("*", "2", "6"), ("+", "2", "8"))),
        ("chains", "3>8:", "", False, None),
    ],
)
def test_rules_of_the_tasks(name, prompt, completion, right, answer):
    task = tasks.TASKS[name]()
    assert task.is_right(prompt, completion) is right
    assert task.answer(completion) == answer


def test_every_prompt_has_several_right_answers_and_pretraining_does_not_favour_them():
    digits, chains = tasks.digits(), tasks.chains()
    assert [sum(digits.is_right(p, f"{pair:02}") for pair in range(100)) for p in digits.prompts] == [6, 7, 8, 9, 10]
    texts = [text.split(":") for text in chains.pretraining]
    share = sum(chains.is_right(f"{prompt}:", completion) for prompt, completion in texts) / len(texts)
    assert 0.05 < share < 0.15


@pytest.fixture
def short(monkeypatch):
    for name, make in dict(tasks.TASKS).items():
        task = replace(make(), steps=4, pretraining_steps=3)
        monkeypatch.setitem(tasks.TASKS, name, lambda task=task: task)


@pytest.mark.usefixtures("short")
def test_a_few_steps_with_trl(tmp_path):
    settings = Settings(batch_size=16, num_generations=8, eval_every=2, eval_completions=4)
    out = tmp_path / "results.json"
    main(out, tasks=["chains"], seeds=[0], settings=settings)
    first = out.read_text()
    assert first.count('"step": 4') == 2
    main(out, tasks=["chains"], seeds=[0], settings=settings)
    assert out.read_text() == first  # finished runs are kept
    with pytest.raises(SystemExit, match="other settings"):
        main(out, settings=Settings())
    # Evaluation does not disturb training: the same run without it ends the same.
    curves = [train("digits", "polychromic", 1, replace(settings, eval_every=every)) for every in (1, 4)]
    assert curves[0][-1] == curves[1][-1]


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("method", ["grpo", "polychromic"])
def test_a_few_steps_in_plain_pytorch(method):
    curve = train_plainly(method=method, groups=2, group_size=8, eval_every=2)
    assert [point["step"] for point in curve] == [0, 2, 4]
