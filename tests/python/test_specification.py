"""Requirements, objectives, weights, errors."""

import copy
import pickle

import acrl
import numpy as np
import pytest


def test_requirement_repr() -> None:
    r = acrl.at_most("power", 2, reward="watts")
    assert (r.name, r.reward, r.bound, r.direction, r.sign) == ("power", "watts", 2.0, "at_most", -1.0)
    assert acrl.at_least("a", 0.25).reward == "a"


def test_requirements_are_hashable_values() -> None:
    a, b = acrl.at_least("a", 0.5), acrl.at_least("a", 0.5)
    assert a == b
    assert len({a, b, acrl.at_most("a", 0.5), acrl.at_least("a", 0.5, reward="x")}) == 3
    assert a != "a"
    assert hash(acrl.at_least("a", 0.0)) == hash(acrl.at_least("a", -0.0))
    for value in [a, acrl.at_most("p'\"q", 1 / 3, reward="ω"), acrl.minimize("power")]:
        assert pickle.loads(pickle.dumps(value)) == value
        assert copy.deepcopy(value) == value
        assert eval(repr(value)) == value
    with pytest.raises(AttributeError):
        a.bound = 1.0  # type: ignore[misc]


@pytest.mark.parametrize("bound", [float("nan"), float("inf"), -float("inf")])
def test_a_bound_is_a_finite_number(bound: float) -> None:
    with pytest.raises(acrl.InputError, match=r"the bound of 'a' must be a finite number, but it is"):
        acrl.at_least("a", bound)


def test_bad_names_and_directions_are_refused() -> None:
    with pytest.raises(acrl.InputError, match="empty"):
        acrl.at_least("", 1.0)
    with pytest.raises(acrl.InputError, match="expected 'at_least' or 'at_most'"):
        acrl.Requirement("a", 1.0, "above")  # type: ignore[arg-type]
    with pytest.raises(acrl.InputError, match="expected 'maximize' or 'minimize'"):
        acrl.Objective("a", "improve")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        acrl.at_least("a", "half")  # type: ignore[arg-type]


def test_exceptions_form_one_tree_with_builtin_bases() -> None:
    assert issubclass(acrl.InputError, (acrl.Error, ValueError))
    for error, base in [
        (acrl.InputError, ValueError),
        (acrl.FileError, OSError),
        (acrl.SolveError, RuntimeError),
        (acrl.UnknownNameError, KeyError),
    ]:
        assert issubclass(error, acrl.Error)
        assert issubclass(error, base)
        assert isinstance(pickle.loads(pickle.dumps(error("why"))), error)
    assert str(acrl.UnknownNameError("no 'x'")) == "no 'x'"


def test_weights_are_normalised_and_checked() -> None:
    assert acrl.weights({"a": 1.0, "b": 2.0}).tolist() == [0.25, 0.25, 0.5]
    assert acrl.weights(np.zeros(2), objective=False).tolist() == [0.5, 0.5]
    for bad in [-1.0, float("nan")]:
        with pytest.raises(acrl.InputError, match="multiplier"):
            acrl.weights([bad])


def test_named_numbers_convert_to_an_array() -> None:
    named = acrl.Named(a=1.0, b=2.0)
    assert np.asarray(named).tolist() == [1.0, 2.0]
    assert pickle.loads(pickle.dumps(named)) == named
    assert type(copy.copy(named)) is acrl.Named


def test_all_names_exist() -> None:
    assert all(hasattr(acrl, name) for name in acrl.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        acrl.nothing  # type: ignore[attr-defined] # noqa: B018
