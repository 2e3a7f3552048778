"""What is read and what is not; methods and tables."""

import dataclasses
import json
import shutil

import pytest

from polychromic import UserError, write_report
from polychromic.cli import main
from polychromic.report.compare import compare, pooled, training_curves, unequal_attempts, without_control
from polychromic.report.gather import gather
from polychromic.report.headline import in_order
from polychromic.report.page import page, page_data
from polychromic.report.table import as_markdown
from polychromic.report.tables import tables, tables_of
from polychromic.tasks.grids import paper_results


def test_bad_directories_cost_a_line_each_and_the_rest_is_reported(results, tmp_path, capsys):
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    half = tmp_path / "half"
    half.mkdir()
    shutil.copy(results["ppo"] / "config.json", half)
    (half / "metrics.jsonl").write_text('{"iteration": 0, "steps": 1')
    broken = tmp_path / "broken"
    broken.mkdir()
    shutil.copy(results["ppo"] / "config.json", broken)
    (broken / "metrics.jsonl").write_text("not json\n")
    going = tmp_path / "going"
    going.mkdir()
    for name in ("config.json", "metrics.jsonl", "evaluations.jsonl"):
        shutil.copy(results["ppo"] / name, going)
    torn = tmp_path / "torn.json"
    torn.write_text(results["base"].read_text()[:1000])
    other = tmp_path / "other.json"
    other.write_text("{}")
    short = tmp_path / "short.json"
    found = without_checksum(results["base"])
    found["best"]["configurations"]["entropy"].pop()
    short.write_text(json.dumps(found))
    bare = tmp_path / "bare.json"
    del found["result"]["configurations"]["successes"]
    bare.write_text(json.dumps(found))
    out = tmp_path / "report.html"
    given = [
        short,
        bare,
        tmp_path / "nowhere",
        foreign,
        half,
        broken,
        going,
        torn,
        other,
        results["base"],
        results["poly-ppo"],
    ]
    assert main(["report", *map(str, given), "--out", str(out)]) == 0
    lines = capsys.readouterr().err.splitlines()
    for name, reason in [
        ("nowhere", "does not exist"),
        ("foreign", "has no config.json"),
        ("half", "nothing to show yet"),
        ("broken", "damaged"),
        ("going", "is not evaluated yet"),
        ("going", "is not complete: 2 of 2"),
        ("torn.json", "cannot be read"),
        ("other.json", "is not an evaluation"),
        ("short.json", "'best.configurations.entropy' has 3 entries instead of 4"),
        ("bare.json", "it has no 'result.configurations.successes'"),
    ]:
        assert sum(name in line and reason in line for line in lines) == 1, (name, reason)
    assert len(lines) == 10
    assert "poly-ppo" in out.read_text()


@pytest.mark.parametrize("value", [3, {}, {"ks": []}, {"ks": [1], "strict": [], "original": {}}])
def test_a_damaged_section_of_a_task_costs_a_line(results, tmp_path, capsys, value):
    found = without_checksum(results["base"])
    found["task"] = "triangle"
    found["result"]["triangle"] = value
    (tmp_path / "section.json").write_text(json.dumps(found))
    (tmp_path / "deep.json").write_text("[" * 100_000)
    (tmp_path / "surrogate.json").write_text('{"format": "\\ud800"}')
    names = ("section", "deep", "surrogate")
    given = [*(tmp_path / f"{name}.json" for name in names), results["base"]]
    assert main(["report", *map(str, given), "--out", str(tmp_path / "report.html")]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert [sum(f"left out: {tmp_path / name}.json" in line for line in lines) for name in names] == [1, 1, 1]


def test_what_no_reader_foresaw_costs_a_line_too(results, tmp_path, monkeypatch):
    """A page of one entry that cannot be made leaves that entry out."""
    from polychromic.report import page as made

    drawn = made.training_curves
    fail = lambda entry: 1 // 0 if entry.method == "ppo" else drawn(entry)  # noqa: E731
    monkeypatch.setattr(made, "training_curves", fail)
    said = write_report([results["ppo"], results["poly-ppo"]], tmp_path / "report.html")
    assert sum(line.startswith("left out: fourrooms-ppo-0: ZeroDivisionError") for line in said) == 1
    assert "poly-ppo" in (tmp_path / "report.html").read_text()


def without_checksum(path):
    """What is in a file, as an earlier version would have written it."""
    document = json.loads(path.read_text())
    document.pop("checksum", None)
    return document


def changed(document, path, value):
    """A copy with the entry at `path` replaced; REMOVED takes it out."""
    copy = json.loads(json.dumps(document))
    inner = copy
    for name in path[:-1]:
        inner = inner[name]
    if value is REMOVED:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return copy


def entries_of(document, path=()):
    """The path of every entry of a JSON document; of a list, its first."""
    inner = document
    for name in path:
        inner = inner[name]
    names = list(inner) if isinstance(inner, dict) else [0] if isinstance(inner, list) and inner else []
    for name in names:
        yield (*path, name)
        yield from entries_of(document, (*path, name))


REMOVED = object()
WRONG = (None, "text", {}, [], -3, float("nan"), 10**400)


@pytest.mark.parametrize("name", ["base.json", "config.json", "evaluation.json", "metrics.jsonl", "evaluations.jsonl"])
def test_whatever_is_wrong_in_a_file_the_others_are_reported(results, tmp_path, name):
    run = tmp_path / "run"
    shutil.copytree(results["ppo"], run)
    lines = name.endswith(".jsonl")
    file = tmp_path / name if name == "base.json" else run / name
    text = (results["base"] if name == "base.json" else file).read_text()
    document = json.loads(text.splitlines()[-1] if lines else text)
    document.pop("checksum", None)  # with it every change would be refused for the same reason
    (run / "done.json").unlink()  # as it holds the checksums of the logs
    for part in ("result", "best"):
        # One configuration is like another.
        for recording in document.get(part, {}).get("recordings", [])[1:]:
            recording["strategies"] = []
    document |= {name: dict(list(document[name].items())[:1]) for name in ("legend", "versions") if name in document}
    # Every third entry, removed and wrong: neighbours are of one kind, and a page takes a while to make.
    for number, path in enumerate(list(entries_of(document))[::3]):
        for value in (REMOVED, WRONG[number % len(WRONG)]):
            file.write_text(json.dumps(changed(document, path, value)) + "\n" * lines)
            entries, problems = gather([tmp_path / name if name == "base.json" else run, results["poly-ppo"]])
            if len(entries) == 1:
                continue  # it was left out
            text = page(page_data(in_order(compare(entries)), problems, title=""))
            assert '"label":"Poly-PPO"' in text
            assert all("\n" not in problem for problem in problems)


def test_a_damaged_evaluation_does_not_take_the_run_with_it(results, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(results["ppo"], run)
    (run / "evaluation.json").write_text("{")
    entries, problems = gather([run])
    assert entries[0].metrics
    assert entries[0].evaluation is None
    assert len(problems) == 1
    assert "without its evaluation" in problems[0]


def test_a_run_given_twice_counts_once(results):
    entries, problems = gather([results["ppo"], results["ppo"] / ".", results["base"]])
    assert len(entries) == 2
    assert "given twice" in problems[0]


def test_other_temperatures_and_other_policies_are_other_lines(results):
    (entry,), _ = gather([results["base"]])
    colder = json.loads(json.dumps(entry.evaluation))
    colder["result"]["temperature"] = 0.5
    del colder["best"]
    other = json.loads(json.dumps(colder))
    other["policy"]["hash"] = "0123456789abcdef"
    (comparison,) = compare([dataclasses.replace(entry, evaluation=one) for one in (colder, other, entry.evaluation)])
    labels = {method.label for method in comparison.methods}
    own = f"pretrained ({entry.name}, {entry.evaluation['policy']['hash'][:8]})"
    assert {own, f"{own}, temperature 0.5", f"pretrained ({entry.name}, 01234567), temperature 0.5"} <= labels
    assert all(len(method.results) == 1 for method in comparison.methods)


def test_unequal_attempts_are_remarked_on(results):
    (entry,), _ = gather([results["ppo"]])
    fewer = json.loads(json.dumps(entry.evaluation))
    fewer["result"]["attempts"] = 8
    (comparison,) = compare([entry])
    assert unequal_attempts(comparison) == []
    (comparison,) = compare([entry, dataclasses.replace(entry, method="grpo", evaluation=fewer)])
    assert "evaluated with 8, 16 attempts" in unequal_attempts(comparison)[0]


def test_worlds_without_levels_and_grids_are_reported(results, tmp_path):
    found = without_checksum(results["base"])
    found |= {"task": "Own", "level_seeds": [], "grid_shape": [], "legend": {}, "strategies": "tunes"}
    for part in ("result", "best"):
        del found[part]["recordings"]
    (tmp_path / "own.json").write_text(json.dumps(found))
    assert len(write_report([tmp_path / "own.json"], tmp_path / "r.html")) == 0
    (comparison,) = compare(gather([tmp_path / "own.json"])[0])
    assert (comparison.title, comparison.strategies) == ("Own", "tunes")


def test_nothing_readable_is_one_line_and_no_file(tmp_path, capsys):
    out = tmp_path / "report.html"
    assert main(["report", str(tmp_path / "a"), str(tmp_path / "b"), "--out", str(out)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not out.exists()
    with pytest.raises(UserError, match="RUNS is empty"):
        write_report([], out)


def test_methods_in_the_papers_order_with_the_control(results):
    entries, problems = gather([results["poly-ppo"], results["ppo"], results["base"]])
    assert not problems
    (comparison,) = compare(entries)
    labels = [method.label for method in comparison.methods]
    assert labels[0] == "pretrained"
    assert labels[1].startswith("pretrained, best temperature (")
    assert labels[2:] == ["PPO", "Poly-PPO"]
    assert without_control(comparison) == []
    (alone,) = compare(gather([results["ppo"]])[0])
    assert "the control is missing" in without_control(alone)[0]
    curves = training_curves(comparison.methods[3].entries[0])
    assert curves["trajectories"] == [136, 272]
    assert curves["steps"] == sorted(curves["steps"])
    assert len(curves["success"]) == 2


def test_runs_that_differ_in_their_seed_alone_are_pooled(results):
    (entry,), _ = gather([results["ppo"]])
    again = dataclasses.replace(entry, name="again", seed=1)
    evaluation = json.loads(json.dumps(entry.evaluation))
    evaluation["result"]["configurations"]["successes"] = [16] * 4
    evaluation["result"]["configurations"]["success"] = [1.0] * 4
    (comparison,) = compare([entry, dataclasses.replace(again, evaluation=evaluation)])
    (method,) = comparison.methods
    assert method.label == "PPO"
    own = entry.evaluation["result"]["success"]["mean"]
    assert pooled(method)["success"]["mean"] == pytest.approx((own + 1) / 2, abs=1e-5)
    assert pooled(method)["pass_at_k"]["mean"][0] == pytest.approx((own + 1) / 2, abs=1e-5)
    other = dataclasses.replace(again, settings={**entry.settings, "clip": 0.1})
    (comparison,) = compare([entry, other])
    assert [method.label for method in comparison.methods] == ["PPO, clip 0.1", "PPO, clip 0.2"]


def test_only_equal_configurations_are_compared(results):
    (entry,), _ = gather([results["ppo"]])
    assert len(compare([entry, dataclasses.replace(entry, level_seeds=(7,))])) == 2


def test_tables_have_the_papers_figures_beside_ours(results, tmp_path):
    entries, _ = gather([results["base"], results["ppo"]])
    (comparison,) = compare(entries)
    first, beside, perturbed = tables_of(comparison)["good"]
    rows = {row[0]: row for row in first.rows}
    success = entries[1].evaluation["result"]["success"]
    assert rows["PPO"][1] == f"{100 * success['mean']:.1f} [{100 * success['low']:.1f}, {100 * success['high']:.1f}]"
    paper = {row[0]: dict(zip(beside.columns, row, strict=True)) for row in beside.rows}
    assert (paper["PPO"]["paper: success %"], paper["PPO"]["paper: reward"]) == ("89.2", "0.618")
    assert paper["PPO"]["success %"] == rows["PPO"][1]
    assert {row[0]: row[2] for row in perturbed.rows}["PPO"] == "15.3"
    # Methods that were not run are not listed, and no row or column is without a value.
    assert set(paper) == {"pretrained", "PPO"} < {"pretrained", "PPO", *paper_results()["methods"]}
    shown = [table for part in tables_of(comparison).values() for table in part]
    for table in shown:
        assert all(set(row[1:]) != {"–"} for row in table.rows)
        assert all(set(column) != {"–"} for column in zip(*table.rows, strict=True))
    write_report([results["base"], results["ppo"]], tmp_path / "r.html", markdown=tmp_path / "t.md")
    text = (tmp_path / "t.md").read_text()
    assert text == as_markdown(tables([comparison]))
    assert text.count("\n| PPO |") == len(shown)
    assert "## fourrooms: Success and reward" in text


def test_an_own_world_has_neither_the_papers_numbers_nor_the_rewards_of_grids(results):
    (entry,), _ = gather([results["base"]])
    own = json.loads(json.dumps(entry.evaluation))
    for part in ("result", "best"):
        del own[part]["configurations"]["reward_0.5"], own[part]["configurations"]["reward_0.9"]
    mine = dataclasses.replace(entry, task="Own", evaluation=own)
    told = as_markdown(tables(compare([mine, entry])))
    text, rest = told.split("## fourrooms", 1) if told.startswith("## Own") else told.split("## Own", 1)[::-1]
    assert "paper" in rest
    assert "1 − 0.5·t/H" in rest
    assert "paper" not in text
    assert "t/H" not in text
    assert "| method | success % | coverage | pass@16 | return | runs |" in text
