"""The demo from a policy to its report, in small."""

from polychromic.cli import main


def test_the_demo_ends_in_a_report_and_plain_words(results):
    printed, out = results["printed"], results["demo"]
    for part in ("pretrained at its best temperature", "One attempt: ", "8 attempts: ", "Distinct room sets: "):
        assert part in printed
    assert str(out.resolve() / "report.html") in printed
    page = (out / "report.html").read_text()
    for label in ('"pretrained"', '"pretrained, best temperature', '"ppo"', '"poly-ppo"'):
        assert f'"label":{label}' in page
    assert "fourrooms" in (out / "tables.md").read_text()


def test_an_unknown_policy_is_one_line(tmp_path, capsys):
    assert main(["demo", "--policy", "nobody", "--out", str(tmp_path / "demo")]) == 2
    assert "policy is 'nobody'" in capsys.readouterr().err
    assert not (tmp_path / "demo").exists()
