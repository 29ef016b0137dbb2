"""Former names: none is left in the public API, and using one gives an error with the present name."""

import dataclasses
import inspect
import re
from pathlib import Path
from typing import Any

import acrl
import gymnasium
import pytest
from acrl import _former_names

PACKAGE = Path(acrl.__file__).parent
LAZY = ["AugmentedEnv", "AugmentedVectorEnv", "EnvReport", "Iteration", "Settings", "Training", "check_env", "train"]
PUBLIC = {name: getattr(acrl, name) for name in [*acrl.__all__, *LAZY]}


def fields(kind: Any) -> set[str]:
    """The fields and public attributes of a class."""
    found = {name for name in dir(kind) if not name.startswith("_")}
    if dataclasses.is_dataclass(kind):
        found |= {field.name for field in dataclasses.fields(kind)}
    return found | set(getattr(kind, "_fields", ()))


def test_no_former_class_is_public() -> None:
    assert not _former_names.CLASSES.keys() & PUBLIC.keys()
    for new in _former_names.CLASSES.values():
        assert new in PUBLIC


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_signatures_and_fields_have_no_former_names(name: str) -> None:
    public = PUBLIC[name]
    attributes = _former_names.ATTRIBUTES.get(name, {})
    if inspect.isclass(public):
        assert not fields(public) & attributes.keys()
        assert fields(public) >= set(attributes.values())
    if name in _former_names.ARGUMENTS:
        parameters = inspect.signature(public).parameters
        assert not parameters.keys() & _former_names.ARGUMENTS[name].keys()
        assert parameters.keys() >= set(_former_names.ARGUMENTS[name].values())


def test_settings_have_no_former_names() -> None:
    names = set(acrl.Settings.__annotations__)
    assert not names & _former_names.SETTINGS.keys()
    assert set(_former_names.SETTINGS.values()) == names


def test_sources_and_stubs_have_no_private_vocabulary() -> None:
    former = re.compile(r"\b(lanes?|steering|steers?|steered|settles?|settler|rehears\w*|course|heeds?|unseen)\b", re.I)
    tables = {"_former_names.py"}
    for path in sorted([*PACKAGE.glob("*.py"), *PACKAGE.glob("*.pyi")]):
        if path.name not in tables:
            found = former.findall(path.read_text(encoding="utf-8"))
            assert not found, f"{path.name}: {found}"


def call(name: str, argument: str) -> None:
    given: dict[str, Any] = {argument: 1}
    if name not in ("reproduce", "run", "compare"):
        given["requirements"] = acrl.at_least("reward", 0.5)
    first: list[Any] = [] if name == "reproduce" else ["monitoring"]
    if name in ("train", "Training", "AugmentedEnv"):
        first = [gymnasium.make("CartPole-v1")]
    PUBLIC[name](*first, **given)


ARGUMENTS = [(name, old, new) for name, table in _former_names.ARGUMENTS.items() for old, new in table.items()]


@pytest.mark.parametrize(("name", "old", "new"), ARGUMENTS)
def test_former_argument_is_refused_with_the_present_name(name: str, old: str, new: str) -> None:
    with pytest.raises(TypeError, match=f"acrl.{name} has no argument '{old}': '{old}' is now '{new}'"):
        call(name, old)


@pytest.mark.parametrize(("old", "new"), _former_names.SETTINGS.items())
def test_former_setting_is_refused_with_the_present_name(old: str, new: str) -> None:
    settings: Any = {old: 1}
    with pytest.raises(acrl.InputError, match=f"settings: '{old}' is now '{new}'"):
        acrl.train("CartPole-v1", requirements=acrl.at_least("reward", 0.5), settings=settings)


VALUES = [(name, old, new) for name, table in _former_names.VALUES.items() for old, new in table.items()]


@pytest.mark.parametrize(("name", "old", "new"), VALUES)
def test_former_value_is_refused_with_the_present_one(name: str, old: str, new: str) -> None:
    given: dict[str, Any] = {name: old} if name == "if_exists" else {"settings": {name: old}}
    with pytest.raises(acrl.InputError, match=f"{name}: '{old}' is now '{new}'"):
        acrl.train("CartPole-v1", requirements=acrl.at_least("reward", 0.5), **given)


@pytest.mark.parametrize(("old", "new"), _former_names.CLASSES.items())
def test_former_class_is_refused_with_the_present_name(old: str, new: str) -> None:
    with pytest.raises(AttributeError, match=f"it is now 'acrl.{new}'"):
        getattr(acrl, old)
