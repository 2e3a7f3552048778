"""Episodes in the terminal and as a GIF."""

import pytest
from PIL import Image

import polychromic
from polychromic.cli import main


def test_a_gif_has_a_frame_per_moment(results, tmp_path, capsys):
    gif = tmp_path / "episode.gif"
    assert main(["watch", str(results["ppo"]), "--configuration", "2", "--gif", str(gif), "--tile-size", "4"]) == 0
    printed = capsys.readouterr().out
    steps = int(printed.split(" after ")[1].split()[0])
    with Image.open(gif) as image:
        assert image.size == (19 * 4, 19 * 4)
        # Frames in which nothing moved may be joined with the one before.
        assert 2 <= image.n_frames <= steps + 1
    assert str(gif) in printed


def test_the_terminal_shows_the_end_of_each_episode(results, capsys):
    assert main(["watch", str(results["policy"]), "--episodes", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("configuration 1, level seed 0: ")
    assert sum(line.startswith("episode ") for line in lines) == 2
    assert sum(any(sign in line for sign in "▶▼◀▲") for line in lines) == 2


def test_the_picture_of_a_level():
    world = polychromic.make("goto", seeds=[0])
    state = world.start([0])
    lines = world.text(state).splitlines()
    assert len(lines) == 22
    assert all(len(line) == 44 for line in lines)
    x, y = world.positions(state)[0]
    assert lines[y][2 * x] in "▶▼◀▲"
    assert lines[0] == "█" * 44
    assert "\033[" in world.text(state, colours=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--configuration", "0"], "configuration is 0"),
        (["--configuration", "9"], "has 1 … 4"),
        (["--episodes", "0"], "episodes is 0"),
        (["--seed", "-1"], "seed is -1"),
        (["--temperature", "-1"], "temperature"),
        (["--gif", "/proc/nowhere/a.gif"], "gif"),
    ],
)
def test_mistakes_get_one_line(results, capsys, options, message):
    assert main(["watch", str(results["policy"]), *options]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
