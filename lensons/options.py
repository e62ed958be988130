"""Reading options: what a caller may give for a number, said in one place."""

from lensons.errors import InputError


def yes_or_no(name: str, value: object) -> bool:
    """An option that is a switch; 1 and "yes" are no answers."""
    if not isinstance(value, bool):
        raise InputError(f"{name}={value!r:.100} was given. Allowed are True and False. Choose one of those.")
    return value


def whole_number(name: str, value: object, low: int, high: int | None = None) -> int:
    """An option that must be a whole number in a range; one clear error where it is not."""
    span = f"from {low}" + ("" if high is None else f" to {high:,}")
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InputError(f"{name}={value!r:.100} was given. Allowed are whole numbers {span}.")
    number = int(value.__index__())
    if number < low or (high is not None and number > high):
        raise InputError(f"{name}={number} was given. Allowed are whole numbers {span}. Choose one of those.")
    return number
