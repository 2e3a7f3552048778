"""The language study: rewards against their definitions, a few steps of every row, and its tables."""

import json
import random
from dataclasses import replace

import numpy as np
import pytest
import study
import study_plan
import study_tables
import torch
from families import FAMILIES
from study_plan import SEEDS, planned_seeds
from study_rows import ROWS, log_probabilities, rewards_and_config
from tiny_llama import character_tokenizer, tiny_llama

from polychromic import all_sets, set_advantages

SMALL = study.Settings(
    width=16,
    layers=1,
    pretraining_texts=200,
    pretraining_steps=3,
    steps=2,
    batch_size=64,
    learning_rates=(1e-4, 1e-2),
    train_prompts=16,
    test_prompts=4,
    attempts=8,
    curve_every=1,
    curve_attempts=4,
)


@pytest.mark.parametrize("row", ["best-of-4", "stock-entropy", "stock-entropy-batch"])
def test_rewards_of_our_own(row, tmp_path):
    """Best-of against enumeration of all sets; the entropy bonus against its definition."""
    tokenizer = character_tokenizer(FAMILIES["countdown"].characters)
    model = tiny_llama(tokenizer, 0, width=16, layers=1)
    arguments = {"output_dir": str(tmp_path), "max_steps": 10, "bf16": False, "use_cpu": True, "num_generations": 16}
    arguments |= {"per_device_train_batch_size": 32}
    answer = FAMILIES["countdown"].answer
    (function, *_), config = rewards_and_config(ROWS[row], answer, model, tokenizer, arguments)
    scales = {"best-of-4": "none", "stock-entropy": "group", "stock-entropy-batch": "batch"}
    assert config.scale_rewards == scales[row]
    prompts = ["23578>24:"] * 32
    completions = random.Random(0).choices(["3*8", "2+7+3*5", "2*5", "7+8", "+"], k=32)
    ids = [tokenizer(text).input_ids for text in completions]
    rewards = np.array(function(prompts=prompts, completions=completions, completion_ids=ids))
    right = np.array([answer(*pair) is not None for pair in zip(prompts, completions, strict=True)], float)
    groups = right.reshape(2, 16)
    if row != "best-of-4":
        surprise = -log_probabilities(model, tokenizer, prompts, ids)
        whole = model(torch.tensor([tokenizer(prompts[0]).input_ids + ids[0]])).logits[0].log_softmax(-1).detach()
        start = len(prompts[0])
        by_hand = -sum(float(whole[start - 1 + i, token]) for i, token in enumerate(ids[0]))
        assert surprise[0] == pytest.approx(by_hand, rel=1e-5)
        assert rewards == pytest.approx(right + ROWS[row].entropy_bonus * surprise)
    else:
        sets = all_sets(16, 4)
        best = groups[:, sets].max(axis=-1)
        expected = np.stack([set_advantages(scores, sets, 16) for scores in best])
        centred = rewards.reshape(2, 16) - rewards.reshape(2, 16).mean(axis=1, keepdims=True)
        assert centred == pytest.approx(expected, abs=1e-9)


def test_every_row_trains_and_the_tables_read_it(tmp_path, capsys):
    out = tmp_path / "results"
    chosen = {"families": ["programs"], "seeds": [0], "processes": 1, "cache": tmp_path / "cache", "settings": SMALL}
    study.main(out, **chosen)
    assert {file.stem for file in out.glob("*.json")} == {f"programs-{row}-0" for row in ROWS}
    searched = {(ROWS[row].rate_of, rate) for row in ROWS if row != "pretrained" for rate in ("0.0001", "0.01")}
    assert {file.stem for file in out.glob("search/*.json")} == {f"programs-{row}-{rate}" for row, rate in searched}
    before = {file: file.stat().st_mtime_ns for file in out.glob("**/*.json")}
    study.main(out, **chosen)
    assert {file: file.stat().st_mtime_ns for file in out.glob("**/*.json")} == before  # finished cells are kept
    with pytest.raises(SystemExit, match="other settings"):
        study.main(out, **chosen | {"settings": replace(SMALL, steps=3)})
    cell = json.loads((out / "programs-polychromic-4-0.json").read_text())
    assert [point["step"] for point in cell["curve"]] == [0, 1, 2]
    assert list(cell["scores"]) == ["train", "held-out", "harder"]
    assert list(cell["scores"]["harder"]["pass_at_k"]) == ["1", "2", "4", "8"]
    asked = {file.stem for file in out.glob("*.json") if "temperatures" in json.loads(file.read_text())}
    assert asked == {f"programs-{row}-0" for row in study_plan.MAIN_ROWS}
    capsys.readouterr()
    study_tables.main(out, figures=tmp_path / "figures")
    printed = capsys.readouterr().out
    assert all(f"| {name} | 1 |" in printed for name in study_tables.NAMES.values())
    assert {file.name for file in (tmp_path / "figures").iterdir()} == {
        "language-study.svg",
        "language-study-splits.svg",
        "language-study-temperatures.svg",
        "language-study-training.svg",
    }


def test_the_lowest_of_the_best_rates_on_validation_prompts_is_chosen(tmp_path):
    (tmp_path / "search").mkdir()
    scores = {("stock", 1e-4): 0.295, ("stock", 1e-2): 0.3, ("polychromic-4", 1e-4): 0.1, ("polychromic-4", 1e-2): 0.2}
    for (row, rate), score in scores.items():
        cell = study.Cell("chains", row, SMALL.search_seed, rate)
        (tmp_path / cell.file).write_text(json.dumps({"scores": {"validation": {"pass_at_k": {"1": score}}}}))
    assert study.chosen_rate(tmp_path, "chains", "stock-kl", SMALL) == 1e-4
    assert study.chosen_rate(tmp_path, "chains", "best-of-4", SMALL) == 1e-2


def test_evaluation_counts_what_the_model_writes(monkeypatch):
    family = FAMILIES["programs"]
    texts = iter(["tii", "itk", "i", "q", "q", "i", "", "d"])
    monkeypatch.setattr(study, "complete", lambda *_: list(texts))
    prompts = ["3>11,5>17:", "1>2,2>4:"]
    scores = study.evaluate(torch.nn.Identity(), None, family, prompts, 4)
    assert scores["successes"] == [2, 1]
    assert scores["pass_at_k"] == {"1": 0.375, "2": 0.6667, "4": 1.0}  # (1/2 + 1/4)/2, (5/6 + 1/2)/2
    assert scores["distinct_right"]["4"] == 1.5


def test_mistakes_are_named(tmp_path):
    with pytest.raises(SystemExit, match="--rows has 'ppo'"):
        study.main(tmp_path, rows=["ppo"])
    with pytest.raises(SystemExit, match="--seeds has 100, the seed of the search"):
        study.main(tmp_path, seeds=[100])
    with pytest.raises(SystemExit, match="has no cells"):
        study_tables.main(tmp_path)
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(SystemExit, match="is not a cell"):
        study_tables.main(tmp_path)


def test_intervals_over_seeds():
    mean, low, high = study_tables.mean_and_interval([1.0, 2.0, 3.0, 4.0, 5.0])
    assert (mean, low, high) == pytest.approx((3.0, 3 - 1.9634, 3 + 1.9634), abs=2e-3)
    assert study_tables.mean_and_interval([0.5])[1:] == (float("-inf"), float("inf"))


def test_the_plan_has_the_seeds_that_its_tables_expect():
    cells = [cell for stage in study.stages(tuple(FAMILIES), tuple(ROWS), SEEDS, study.Settings()) for cell in stage]
    planned = [cell for cell in cells if cell.rate is None]
    assert len(planned) == len(set(planned))
    for row in ROWS:
        for family in FAMILIES:
            seeds = [cell.seed for cell in planned if (cell.family, cell.row) == (family, row)]
            assert sorted(seeds) == list(SEEDS[-planned_seeds(row) :])
