"""`polychromic verl-check`: has verl loaded the plug-in, and which settings would apply?

verl swallows whatever goes wrong while it loads a plug-in, so this asks one thing after another and says what it finds.
"""

from __future__ import annotations

import importlib
import os
import sys
from importlib.metadata import PackageNotFoundError, entry_points, version
from pathlib import Path
from typing import Annotated, Any

import tyro

from polychromic.errors import UserError
from polychromic.integrations.verl_settings import NAME, VerlSettings, settings_of

PLUGIN = "polychromic.integrations.verl"


def verl_check(
    overrides: Annotated[tuple[str, ...], tyro.conf.Positional] = (),
    *,
    config: Path | None = None,
) -> int:
    """Say whether verl has loaded polychromic, and check a configuration.

    Args:
        overrides: settings as you give them to verl.trainer.main_ppo, `+polychromic.key=tasks:answer` for example.
        config: a configuration file, as for `--config-path` and `--config-name` of verl.trainer.main_ppo.
    """
    try:
        print(f"verl {version('verl')}")
    except PackageNotFoundError:
        raise UserError("verl is not installed here; pip install 'polychromic[verl]'") from None
    _check_plugin()
    if not overrides and config is None:
        print("no settings given to check; give those of your run, or --config")
        return 0
    _print_settings(settings_of(composed(overrides, config)))
    return 0


def _check_plugin() -> None:
    """Print what is registered; raise a UserError that says what is wrong."""
    policy = os.environ.get("VERL_USE_EXTERNAL_PLUGINS", "auto").strip().lower()
    allowed = {name.strip() for name in policy.split(",")}
    if policy != "auto" and NAME not in allowed:
        raise UserError(f"VERL_USE_EXTERNAL_PLUGINS is {policy!r}; it must be unset, 'auto' or name {NAME}")
    if NAME not in {point.name for point in entry_points(group="verl.plugins")}:
        raise UserError("the entry point is missing from this installation of polychromic: install it again with pip")
    importlib.import_module("verl")
    loaded_by_verl = PLUGIN in sys.modules
    try:
        # If verl has failed to, a second import raises what it has swallowed at the first.
        plugin = importlib.import_module(PLUGIN)
    except Exception as error:
        raise UserError(f"the plug-in fails to load: {type(error).__name__}: {error}") from error
    if not loaded_by_verl:
        raise UserError("verl has not loaded the plug-in, though it can be imported; set VERL_LOGGING_LEVEL=DEBUG to "
                        "see why")  # fmt: skip
    estimators = importlib.import_module("verl.trainer.ppo.core_algos").ADV_ESTIMATOR_REGISTRY
    trainers = importlib.import_module("verl.trainer.ppo.v1.trainer_base").TRAINER_REGISTRY
    found = {
        "algorithm.adv_estimator": (estimators.get(NAME), plugin.polychromic_estimator),
        "trainer.v1.trainer_mode": (trainers.get(NAME), plugin.PolychromicPPOTrainer),
    }
    for setting, (registered, ours) in found.items():
        if registered is not ours:
            raise UserError(f"{setting}={NAME} is registered to {registered!r}, which is not polychromic's")
        print(f"{setting}={NAME}  registered: {ours.__module__}.{ours.__name__}")


def composed(overrides: tuple[str, ...], config: Path | None) -> Any:
    """The configuration that verl would run with."""
    from hydra import compose, initialize_config_dir, initialize_config_module
    from hydra.errors import HydraException

    if config is not None and not config.is_file():
        raise UserError(f"config is {config}; there is no such file")
    start = (
        initialize_config_module("verl.trainer.config", version_base=None)
        if config is None
        else initialize_config_dir(str(config.parent.resolve()), version_base=None)
    )
    try:
        with start:
            return compose("ppo_trainer" if config is None else config.stem, overrides=list(overrides))
    except HydraException as error:
        raise UserError(f"the configuration cannot be put together: {str(error).splitlines()[0]}") from error


def _print_settings(settings: VerlSettings) -> None:
    for way in ("key", "judge", "equivalent", "embed"):
        function = getattr(settings.comparison, way)
        if function is not None:
            print(f"{NAME}.{way}  {function.__module__}:{getattr(function, '__qualname__', function)}")
    if settings.comparison.similarity_threshold is not None:
        print(f"{NAME}.similarity_threshold  {settings.comparison.similarity_threshold}")
    for name, value in vars(settings.sets).items():
        print(f"{NAME}.{name}  {value}")
    for name in ("reward_range", "success_threshold", "incomplete_groups", "seed"):
        print(f"{NAME}.{name}  {getattr(settings, name)}")
