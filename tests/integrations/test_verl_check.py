"""`polychromic verl-check` where there is no verl: one line, no traceback."""

from importlib.util import find_spec

import pytest

from polychromic.cli import main


@pytest.mark.skipif(find_spec("verl") is not None, reason="verl is installed")
def test_without_verl(capsys):
    assert main(["verl-check"]) == 2
    assert (
        capsys.readouterr().err
        == "polychromic verl-check: verl is not installed here; pip install 'polychromic[verl]'\n"
    )
