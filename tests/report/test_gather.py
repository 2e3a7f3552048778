"""What is read and what is not; methods, tables, words."""

import dataclasses
import json
import shutil

import pytest

from polychromic import UserError, write_report
from polychromic.cli import main
from polychromic.report.compare import compare, pooled, training_curves, without_control
from polychromic.report.gather import gather
from polychromic.report.tables import as_markdown, paper_results, tables
from polychromic.report.words import differences, in_words


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
    found = json.loads(results["base"].read_text())
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
        ("short.json", "'entropy' of 'best' is not about 4"),
        ("bare.json", "'result' has no 'successes'"),
    ]:
        assert sum(name in line and reason in line for line in lines) == 1, (name, reason)
    assert len(lines) == 10
    assert "poly-ppo" in out.read_text()


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
    assert labels[2:] == ["ppo", "poly-ppo"]
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
    assert method.label == "ppo"
    own = entry.evaluation["result"]["success"]["mean"]
    assert pooled(method)["success"]["mean"] == pytest.approx((own + 1) / 2, abs=1e-5)
    assert pooled(method)["pass_at_k"]["mean"][0] == pytest.approx((own + 1) / 2, abs=1e-5)
    other = dataclasses.replace(again, settings={**entry.settings, "clip": 0.1})
    (comparison,) = compare([entry, other])
    assert [method.label for method in comparison.methods] == ["ppo, clip 0.1", "ppo, clip 0.2"]


def test_only_equal_configurations_are_compared(results):
    (entry,), _ = gather([results["ppo"]])
    assert len(compare([entry, dataclasses.replace(entry, level_seeds=(7,))])) == 2


def test_tables_have_the_papers_figures_beside_ours(results, tmp_path):
    entries, _ = gather([results["base"], results["ppo"]])
    first, second = tables(compare(entries))
    rows = {row[1]: row for row in first.rows}
    success = entries[1].evaluation["result"]["success"]
    assert rows["ppo"][2] == f"{100 * success['mean']:.1f} [{100 * success['low']:.1f}, {100 * success['high']:.1f}]"
    assert (rows["ppo"][3], rows["ppo"][6]) == ("89.2", "0.618")
    assert rows["reinforce"][2:4] == ("–", "89.6")
    assert {row[1]: row[3] for row in second.rows}["ppo"] == "15.3"
    assert set(paper_results()["methods"]) <= set(rows)
    write_report([results["base"], results["ppo"]], tmp_path / "r.html", markdown=tmp_path / "t.md")
    text = (tmp_path / "t.md").read_text()
    assert text == as_markdown([first, second])
    assert text.count("| fourrooms | ppo |") == 2


def test_words_say_who_is_ahead_only_where_the_interval_says_so():
    def result(successes, distinct):
        count = len(successes)
        return {
            "attempts": 10,
            "success": {"mean": sum(successes) / 10 / count},
            "pass_at_k": {"mean": [0.5, 0.9]},
            "distinct_strategies": {"mean": sum(distinct) / count},
            "configurations": {"successes": successes, "distinct_strategies": distinct},
        }

    results = {
        "pretrained": result([2, 3] * 10, [6, 7] * 10),
        "ppo": result([5, 6] * 10, [1, 2] * 10),
        "poly-ppo": result([5, 6] * 10, [4, 6] * 10),
    }
    gaps = differences(results["poly-ppo"], results["ppo"])
    assert gaps["one attempt"] == (0, 0, 0)
    assert gaps["distinct room sets"][0] == pytest.approx(3.5)
    text = "\n".join(in_words(results, "pretrained", "ppo", "poly-ppo"))
    assert "One attempt: no clear difference" in text
    assert "Distinct room sets: poly-ppo is ahead (poly-ppo minus ppo: +3.5" in text
    assert "ppo lost 5.0" in text
