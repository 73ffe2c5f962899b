"""The arguments of a task: checked against the hints of its function when a call is enqueued, and again before it runs."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import msgspec

from silkline.errors import ConfigError, RequestError

_PATH = re.compile(r"^(.*) - at `\$(?:\.(\w+)|\[\.\.\.\])?(.*)`$", re.DOTALL)
_FIELD = re.compile(r"^Object (missing required|contains unknown) field `(.*)`$", re.DOTALL)
_VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY)
LONGEST_MESSAGE = 300


class Arguments:
    """The parameters of a function and the type of its result. The hints are read when they are first needed."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self._function = function
        self._name = name
        parameters = inspect.signature(function).parameters
        for parameter in parameters.values():
            if parameter.kind in _VARIABLE:
                raise ConfigError(
                    f"the task {name!r} cannot have the parameter {str(parameter)!r}: the arguments of a task have names"
                )
        self._parameters = parameters
        self._names = list(parameters)

    def pack(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call as plain data. Raises `RequestError`, with the name of a wrong one."""
        given = {**self._named(args, kwargs), **kwargs} if args else kwargs
        try:
            plain: dict[str, Any] = msgspec.to_builtins(given, str_keys=True)
        except (TypeError, ValueError, OverflowError, RecursionError):
            raise RequestError(self._not_plain(given)) from None
        self._read(plain)
        return plain

    def pack_all(self, calls: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return the arguments of many calls as plain data. Raises `RequestError`, with the position of the first wrong call."""
        if not all(type(call) is dict for call in calls):
            return [self._pack_at(position, call) for position, call in enumerate(calls)]
        try:
            plain: list[dict[str, Any]] = msgspec.to_builtins(calls, str_keys=True)
            msgspec.convert(plain, list[self._struct], str_keys=True)  # type: ignore[name-defined]
        except (msgspec.ValidationError, TypeError, ValueError, OverflowError, RecursionError):
            return [self._pack_at(position, call) for position, call in enumerate(calls)]
        return plain

    def _pack_at(self, position: int, call: object) -> dict[str, Any]:
        if not isinstance(call, Mapping):
            raise RequestError(f"call {position} is not a mapping of names to arguments, got {call!r:.100}")
        try:
            return self.pack((), dict(call))
        except RequestError as error:
            raise RequestError(f"call {position}: {error}") from None

    def _named(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return positional arguments by their names."""
        if len(args) > len(self._names):
            raise RequestError(f"{self._name}() takes {len(self._names)} arguments, got {len(args)}")
        named = dict(zip(self._names, args, strict=False))
        for name in named:
            if name in kwargs:
                raise RequestError(f"{self._name}() got the argument {name!r} twice")
        return named

    def unpack(self, plain: object) -> dict[str, Any]:
        """Return stored arguments as the function takes them. Raises `RequestError`, with the name of a wrong one."""
        values = self._read(plain)
        return {name: getattr(values, name) for name in self._names}

    def _read(self, plain: object) -> msgspec.Struct:
        try:
            return msgspec.convert(plain, self._struct, str_keys=True)
        except (msgspec.ValidationError, TypeError, ValueError, RecursionError) as error:
            raise RequestError(self._explain(str(error))) from None

    def read_result(self, plain: Any) -> Any:
        """Return a stored result as the type that the function returns."""
        try:
            return msgspec.convert(plain, self._hints.get("return", Any), str_keys=True)
        except (msgspec.ValidationError, TypeError, ValueError) as error:
            raise RequestError(f"the result of {self._name}() is not what its hint says: {error}") from None

    def check(self) -> None:
        """Raise `ConfigError` if the hints cannot be used."""
        _ = self._struct

    @cached_property
    def _hints(self) -> dict[str, Any]:
        try:
            return typing.get_type_hints(self._function)
        except (NameError, TypeError, AttributeError, SyntaxError) as error:
            raise ConfigError(f"the hints of the task {self._name!r} cannot be read: {error}") from None

    @cached_property
    def _struct(self) -> type[msgspec.Struct]:
        fields: list[Any] = []
        for name, parameter in self._parameters.items():
            hint = self._hints.get(name, Any)
            if parameter.default is inspect.Parameter.empty:
                fields.append((name, hint))
            else:
                fields.append((name, hint, msgspec.field(default_factory=partial(_same, parameter.default))))
        try:
            made = msgspec.defstruct(
                "Arguments", fields, kw_only=True, forbid_unknown_fields=True, module=self._function.__module__
            )
            msgspec.json.Decoder(made)  # refuses hints that no plain data can be checked against
        except (TypeError, ValueError) as error:
            raise ConfigError(f"the hints of the task {self._name!r} cannot be used: {error}") from None
        return made

    def _explain(self, message: str) -> str:
        if field := _FIELD.match(message):
            what = "needs the argument" if field[1] == "missing required" else "has no argument"
            return f"{self._name}() {what} {field[2][:100]!r}"
        found = _PATH.match(message)
        if not found or not found[2]:
            return f"{self._name}() cannot be called with these arguments: {message[:LONGEST_MESSAGE]}"
        where = f" (at {found[3][:100]})" if found[3] else ""
        what = found[1][:1].lower() + found[1][1:LONGEST_MESSAGE]
        return f"{self._name}() got a wrong argument {found[2]!r}: {what}{where}"

    def _not_plain(self, given: Mapping[str, Any]) -> str:
        """Name the argument that is not plain data."""
        for name, value in given.items():
            try:
                msgspec.to_builtins(value, str_keys=True)
            except (TypeError, ValueError, OverflowError, RecursionError) as error:
                return f"{self._name}() got an argument {name!r} that cannot be stored as plain data: {error}"
        return f"{self._name}() got arguments that cannot be stored as plain data"


def _same(value: Any) -> Any:
    return value
