"""Allow-lists of a launcher: the variables and arguments of a pod that its process gets.

A process of this machine runs as the user who started the fleet. So a pod chooses nothing that loads code,
opens another address, or reads and writes files outside of the pod's volumes, and what is not listed is
refused. Names must match exactly, because parsers also accept abbreviations (``--middlew``).

Pure.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from modelplane.api.rejected import Rejected

_ANY_ADDRESS = {"", "0.0.0.0", "::", "[::]"}  # noqa: S104 - recognised, not bound
_WORD = re.compile(r"[\w.,:+%^=|-]*", re.ASCII)
_REPOSITORY = re.compile(r"[\w][\w.-]*(/[\w][\w.-]*)?(:[\w.-]+)?", re.ASCII)
_NAME = re.compile(r"\w[\w./:@+-]*", re.ASCII)
_NUMBER = re.compile(r"-\d+(\.\d+)?")
_REFERENCE = re.compile(r"\$\(([^)]*)\)")


@dataclass(frozen=True, slots=True)
class Place:
    """The address and the mount paths that belong to a pod."""

    address: str
    mounts: tuple[str, ...] = ()


Check = Callable[[str, Place], str | None]
"""Returns the values that are allowed, in words; None if the value is one of them."""


def allow_text(_value: str, _place: Place) -> None:
    """Allow every value, for what the engine neither opens nor imports."""


def allow_word(value: str, _place: Place) -> str | None:
    """Allow numbers and names, which no path or URL is."""
    return None if _WORD.fullmatch(value) else "a number or a name without slashes"


def allow_name(value: str, _place: Place) -> str | None:
    """Allow names of models, with slashes between."""
    return None if _NAME.fullmatch(value) and ".." not in value and "://" not in value else "a name"


def allow_address(value: str, place: Place) -> str | None:
    """Allow the pod's own address, and those that stand for every one of its addresses."""
    return (
        None if value in _ANY_ADDRESS | {place.address} else f"0.0.0.0 or the pod's address, {place.address}"
    )


def allow_path(value: str, place: Place) -> str | None:
    """Allow files of the pod's volumes."""
    return None if _is_in_volume(value, place) else _IN_VOLUME


def allow_model(value: str, place: Place) -> str | None:
    """Allow repositories of the hub, and folders of the pod's volumes."""
    is_repository = _REPOSITORY.fullmatch(value) and ".." not in value
    return None if is_repository or _is_in_volume(value, place) else f"OWNER/NAME on the hub, or {_IN_VOLUME}"


def allow_template(value: str, place: Place) -> str | None:
    """Allow the text of a template, the name of one, and files of the pod's volumes."""
    is_template = any(mark in value for mark in "{\n") or _WORD.fullmatch(value)
    return None if is_template or _is_in_volume(value, place) else f"a template, or {_IN_VOLUME}"


_IN_VOLUME = "a path in a volume of the pod"


def _is_in_volume(value: str, place: Place) -> bool:
    inside = (value == mount or value.startswith(f"{mount.rstrip('/')}/") for mount in place.mounts)
    return value.startswith("/") and ".." not in value.split("/") and any(inside)


def allow_one_of(*values: str) -> Check:
    """Allow some values only."""
    return lambda value, _place: None if value in values else f"one of {', '.join(values)}"


def allow_fields(**checks: Check) -> Check:
    """Allow a JSON object of some fields only."""

    def check(value: str, place: Place) -> str | None:
        allowed = f"a JSON object of {', '.join(sorted(checks))}"
        try:
            document = json.loads(value)
        except ValueError:
            return allowed
        if not isinstance(document, dict) or document.keys() - checks.keys():
            return allowed
        for key, entry in document.items():
            if isinstance(entry, dict | list):
                return allowed
            if not isinstance(entry, bool | int | float | None) and (
                allowed_form := checks[key](entry, place)
            ):
                return f'{allowed}, with {allowed_form} as "{key}"'
        return None

    return check


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags of an engine whose parser is Python's argparse."""

    values: Mapping[str, Check]
    """Flags with one value."""
    switches: frozenset[str] = frozenset()
    """Flags without a value."""
    lists: Mapping[str, Check] = field(default_factory=dict)
    """Flags with any number of values."""
    positional: Check | None = None

    def __call__(
        self, arguments: Sequence[str], _variables: Mapping[str, str], place: Place
    ) -> Rejected | None:
        """Return why arguments are refused; None if they are all allowed."""
        return next(self._find_refused(arguments, place), None)

    def _find_refused(self, arguments: Sequence[str], place: Place) -> Iterator[Rejected]:
        check, is_list, shown = self.positional, False, ""
        waits = False
        for argument in arguments:
            if not argument.startswith("-") or (waits and _NUMBER.fullmatch(argument)):
                if check is None:
                    yield _refuse_unlisted("argument", argument)
                elif allowed_form := check(argument, place):
                    yield refuse_value("argument", shown or argument, allowed_form)
                if not is_list:
                    check, shown = self.positional, ""
                waits = is_list
                continue
            written, sign, value = argument.partition("=")
            flag = f"--{written[2:].replace('_', '-')}" if written.startswith("--") else written
            flag_check = self.values.get(flag) or self.lists.get(flag)
            waits = flag_check is not None and not sign
            if flag_check is None and (sign or flag not in self.switches):
                yield _refuse_unlisted("argument", written)
            elif flag_check is not None and sign and (allowed_form := flag_check(value, place)):
                yield refuse_value("argument", written, allowed_form)
            check, shown = (flag_check, written) if waits else (self.positional, "")
            is_list = waits and flag in self.lists


@dataclass(frozen=True, slots=True)
class AllowList:
    """The variables and arguments that the process of one launcher gets from a pod."""

    arguments: Callable[[Sequence[str], Mapping[str, str], Place], Rejected | None]
    """Returns why arguments are refused, given the variables; None if they are allowed."""
    variables: Mapping[str, Check]
    """Checks of values, by the names of variables."""
    prefixes: Mapping[str, Check] = field(default_factory=dict)
    """Checks of values, by what the names of variables begin with."""
    exclusions: frozenset[str] = frozenset()
    """Names that begin so, and are refused."""

    def select_variables(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Return the variables that the process gets."""
        return {variable: value for variable, value in variables.items() if self._find_check(variable)}

    def check(
        self, arguments: Sequence[str], variables: Mapping[str, str], written: Sequence[str], place: Place
    ) -> Rejected | None:
        """Return why a pod is refused; None if it is allowed.

        ``written`` are the arguments before their references to variables are replaced. A variable that is
        only referred to need not be listed, because the arguments are checked as they result.
        """
        referred = {variable for part in written for variable in _REFERENCE.findall(part)}
        for variable, value in variables.items():
            check = self._find_check(variable)
            if check is None and variable not in referred:
                return _refuse_unlisted("variable", variable)
            if check is not None and (allowed_form := check(value, place)):
                return refuse_value("variable", variable, allowed_form)
        return self.arguments(arguments, self.select_variables(variables), place)

    def _find_check(self, variable: str) -> Check | None:
        if variable in self.exclusions:
            return None
        by_prefix = (check for prefix, check in self.prefixes.items() if variable.startswith(prefix))
        return self.variables.get(variable) or next(by_prefix, None)


def _refuse_unlisted(kind: str, written: str) -> Rejected:
    return Rejected(detail=f'it does not accept the {kind} "{written}" from a pod', remedy="remove it")


def refuse_value(kind: str, written: str, allowed_form: str) -> Rejected:
    """Return that an argument or a variable has another value than those that are allowed."""
    return Rejected(detail=f'the {kind} "{written}" must be {allowed_form}')
