"""`polychromic verl-check`: has verl loaded the plug-in, and which settings would apply?

verl swallows whatever goes wrong while it loads a plug-in, so this asks one thing after another and says what it finds.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import sys
import warnings
from importlib.metadata import PackageNotFoundError, entry_points, version
from pathlib import Path
from typing import Annotated, Any

import tyro

from polychromic.errors import UserError
from polychromic.integrations.verl_settings import NAME, TRAINER_MODES, VerlSettings, settings_of

PLUGIN = "polychromic.integrations.verl_plugin"
TRAINERS = "polychromic.integrations.verl"


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
    whole = composed(overrides, config)
    settings = settings_of(whole)
    check_by_verl(whole)
    print("verl's own validation of the configuration  passed")
    _print_settings(settings)
    return 0


def check_by_verl(config: Any) -> None:
    """What verl asks of a configuration before it trains; a UserError says what it refuses."""
    from omegaconf import OmegaConf
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import omega_conf_to_dataclass, validate_config

    name = "actor_rollout_ref.rollout.name"
    if OmegaConf.is_missing(config.actor_rollout_ref.rollout, "name"):
        raise UserError(
            f"verl refuses the configuration: {name} is missing; say which engine generates, vllm or sglang"
        )
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            validate_config(config, use_reference_policy=need_reference_policy(config), use_critic=need_critic(config))
            omega_conf_to_dataclass(config.actor_rollout_ref.rollout)
    except Exception as error:
        # verl raises whatever is at hand: assertions, ValueError, TypeError and those of OmegaConf.
        raise UserError(f"verl refuses the configuration: {' '.join(str(error).split())}") from error


def _check_plugin() -> None:
    """Print what is registered; raise a UserError that says what is wrong."""
    policy = os.environ.get("VERL_USE_EXTERNAL_PLUGINS", "auto").strip().lower()
    allowed = {name.strip() for name in policy.split(",")}
    if policy != "auto" and NAME not in allowed:
        raise UserError(f"VERL_USE_EXTERNAL_PLUGINS is {policy!r}; it must be unset, 'auto' or name {NAME}")
    if NAME not in {point.name for point in entry_points(group="verl.plugins")}:
        raise UserError("the entry point is missing from this installation of polychromic: install it again with pip")
    importlib.import_module("verl")
    if PLUGIN not in sys.modules:
        try:
            importlib.import_module(PLUGIN)
        except Exception as error:
            raise UserError(f"the plug-in fails to load: {type(error).__name__}: {error}") from error
        raise UserError("verl has not loaded the plug-in, though it can be imported; set VERL_LOGGING_LEVEL=DEBUG to "
                        "see why")  # fmt: skip
    try:
        # If it has failed when verl's trainers were imported, a second import raises why.
        plugin = importlib.import_module(TRAINERS)
    except Exception as error:
        raise UserError(f"the plug-in fails to load: {type(error).__name__}: {error}") from error
    estimators = importlib.import_module("verl.trainer.ppo.core_algos").ADV_ESTIMATOR_REGISTRY
    trainers = importlib.import_module("verl.trainer.ppo.v1.trainer_base").TRAINER_REGISTRY
    found = [("algorithm.adv_estimator", NAME, estimators.get(NAME), plugin.polychromic_estimator)]
    for mode, theirs in TRAINER_MODES.items():
        ours = next(ours for ours in plugin.ShowsResponses.__subclasses__() if ours.verl_mode == theirs)
        found.append(("trainer.v1.trainer_mode", mode, trainers.get(mode), ours))
    for setting, name, registered, ours in found:
        if registered is not ours:
            raise UserError(f"{setting}={name} is registered to {registered!r}, which is not polychromic's")
        print(f"{setting}={name}  registered: {ours.__module__}.{ours.__name__}")


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
    if settings.comparison.needs_whole_groups:
        print(f"{NAME}.calls  {settings.comparison.calls}")
        print(f"{NAME}.on_failure  {settings.comparison.on_failure}")
    for name in ("wrong_answers", "columns", "reward_range", "success_threshold", "incomplete_groups", "seed"):
        print(f"{NAME}.{name}  {getattr(settings, name)}")
