"""Reading options: what a caller may give for a number, said in one place."""

import operator

from lensons.errors import InputError


def as_index(number: object) -> int | None:
    """A whole number of any kind (also numpy's, or a tensor of one), or None: neither 1.5 nor True is one."""
    if isinstance(number, bool) or str(getattr(number, "dtype", "")) in {"bool", "torch.bool"}:
        return None
    try:
        return operator.index(number)  # type: ignore[arg-type]
    except (TypeError, ValueError, RuntimeError):  # of tensors and arrays with a fraction, or with more than one number
        return None


def yes_or_no(name: str, value: object) -> bool:
    """An option that is a switch; 1 and "yes" are no answers."""
    if not isinstance(value, bool):
        raise InputError(f"{name}={value!r:.100} was given. Allowed are True and False. Choose one of those.")
    return value


def whole_number(name: str, value: object, low: int, high: int | None = None) -> int:
    """An option that must be a whole number in a range; one clear error where it is not."""
    span = f"from {low}" + ("" if high is None else f" to {high:,}")
    number = as_index(value)
    if number is None:
        raise InputError(f"{name}={value!r:.100} was given. Allowed are whole numbers {span}.")
    if number < low or (high is not None and number > high):
        raise InputError(f"{name}={number} was given. Allowed are whole numbers {span}. Choose one of those.")
    return number
