"""Row and Invalid: one line of the input, as a request or as the reason why it is none."""

from __future__ import annotations

import base64
import binascii
import difflib
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from comity.bulk.body import BodyTemplate
from comity.bulk.row_state import RowState
from comity.bulk.template import UrlTemplate
from comity.client import address, media
from comity.client.headers import checked
from comity.errors import InvalidRequest, OptionsError
from comity.policy import units
from comity.policy.json_path import JsonPath
from comity.policy.token import is_token

Id = str | int
T = TypeVar("T")

_MANY_HOSTS = 10_000
_JSON_TYPE = {"content-type": "application/json"}


class Row(msgspec.Struct, kw_only=True, gc=False):
    """One request of the input.

    Attributes:
        line: its line number; it names the row in the journal.
        id: the input's id, else the line number; ids may repeat.
        host: where it goes, with the port when it is not the scheme's own.
        input: the name of its input, when there are several.
        size: bytes that it holds in memory, about.
        state: how far this run has come with it.
    """

    line: int
    id: Id
    url: str
    host: str
    method: str = "GET"
    headers: dict[str, str] | None = None
    params: dict[str, Any] | None = None
    content: bytes | None = None
    priority: int = 5
    cost: int | dict[str, int] = 1
    idempotent: bool | None = None
    input: str | None = None
    size: int = 0
    state: RowState = msgspec.field(default_factory=RowState)

    @property
    def path(self) -> str:
        """The path as it is sent, without the query."""
        return address.parse(self.url).path

    def field(self, path: JsonPath) -> object:
        """Return what stands there in the JSON body, MISSING when nothing does."""
        return media.json_field(self.content, path)


class Invalid(msgspec.Struct, kw_only=True, gc=False):
    """A line that is no request.

    Attributes:
        field: the field at fault, or None when the line as a whole is.
        input: the name of its input, when there are several.
        message: what is wrong and what would be right.
    """

    line: int
    message: str
    field: str | None = None
    id: Id | None = None
    url: str | None = None
    method: str | None = None
    input: str | None = None


class RowError(ValueError):
    """A line cannot be used; the reader turns it into an `Invalid`."""

    def __init__(self, field: str | None, message: str) -> None:
        super().__init__(message)
        self.field, self.message = field, message


_Params = dict[str, str | int | float | bool | list[str | int | float | bool] | None]


class _Object(msgspec.Struct, forbid_unknown_fields=True):
    """What an input object may hold; null is as good as absent."""

    url: str | None = None
    id: str | int | None = None
    method: str | None = None
    headers: dict[str, str] | None = None
    params: _Params | None = None
    json: msgspec.Raw = msgspec.Raw()
    body: str | dict[str, str] | None = None
    priority: int | None = None
    cost: int | dict[str, int] | None = None
    idempotent: bool | None = None


FIELDS = _Object.__struct_fields__
_decode = msgspec.json.Decoder(_Object).decode
_decode_any = msgspec.json.Decoder().decode
_decode_raw_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.encode
_decode_raw = msgspec.json.Decoder(msgspec.Raw).decode


_COLUMNS: dict[str, Callable[[str], Any]] = {
    "json": lambda text: msgspec.Raw(_decode_raw(text)),
    "headers": msgspec.json.Decoder(dict[str, str]).decode,
    "params": msgspec.json.Decoder(_Params).decode,
    "priority": msgspec.json.Decoder(int).decode,
    "cost": msgspec.json.Decoder(int | dict[str, int]).decode,
    "idempotent": lambda text: msgspec.json.decode(text.lower(), type=bool),
}
"""Fields that a table's column holds as JSON."""


class RowParser:
    """Turn a line's bytes into a Row.

    Args:
        method: method of rows that name none.
        headers: headers of every row; a row's own replace them, whatever the case of the name.
        template: fills the URL of objects and table rows that have none.
        body: fills the body of objects and table rows that have none; their method is POST then, if nothing names one.
        id_column: the column or field whose value is the row's id, instead of `id`.
        cost: of rows that name none.
    """

    def __init__(
        self,
        *,
        method: str | None = None,
        headers: Mapping[str, str] | None = None,
        template: UrlTemplate | None = None,
        body: BodyTemplate | None = None,
        id_column: str | None = None,
        cost: int | dict[str, int] = 1,
    ) -> None:
        self.cost = cost
        self.method, self.template, self.body, self.id_column = method, template, body, id_column
        self.headers = dict(headers or {})
        self._hosts: dict[str, str] = {}

    @property
    def columns(self) -> dict[str, tuple[str, str]]:
        """What a table needs: column -> the option that names it, and its value; neither for `url`."""
        needed: dict[str, tuple[str, str]] = {}
        if self.template is not None:
            needed |= dict.fromkeys(self.template.columns, ("--url", self.template.text))
        else:
            needed["url"] = ("", "")
        if self.body is not None:
            needed |= dict.fromkeys(self.body.columns, (self.body.option, self.body.text))
        if self.id_column is not None:
            needed[self.id_column] = ("--id", self.id_column)
        return needed

    def parse(self, line: int, data: bytes) -> Row | Invalid:
        """Return the row of an object, of a URL in quotes or of a bare URL."""
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            return Invalid(line=line, message=f"line {line} is not UTF-8 (byte {error.start + 1})")
        begin = text.lstrip()[:1]
        spec = _Object()
        try:
            if begin == "{":
                spec = self._object(data)
                return self._row(line, len(data), spec)
            if begin == '"':
                spec = _Object(url=_string(data))
            elif begin == "[":
                raise RowError(None, "an array is no request; a line holds an object with a url, or a URL")
            else:
                spec = _Object(url=text.strip())
                if "://" not in text:
                    raise RowError(None, "neither a JSON object nor a URL")
            return self._row(line, len(data), spec)
        except RowError as error:
            return _invalid(line, error, spec if begin != "{" or spec.url else self._known(data))

    def from_columns(self, line: int, size: int, values: Mapping[str, str]) -> Row | Invalid:
        """Return the row of a table's record: columns named like a field are that field; templates may use any."""
        spec = _Object()
        try:
            spec.id = values.get(self.id_column or "id") or None
            spec.method, spec.body = values.get("method") or None, values.get("body") or None
            spec.url = self._filled(values) if self.template else values.get("url", "").strip()
            for name, decode in _COLUMNS.items():
                if text := values.get(name, "").strip():
                    setattr(spec, name, _column(name, text, decode))
            self._check_own(spec)
            self._fill_body(spec, values)
            return self._row(line, size, spec)
        except RowError as error:
            return _invalid(line, error, spec)

    def _object(self, data: bytes) -> _Object:
        try:
            if self.template is None and self.body is None and self.id_column is None:
                return _decode(data)
            return self._object_with_columns(_decode_any(data), data)
        except msgspec.ValidationError as error:
            raise _wrong_field(str(error)) from None
        except (msgspec.DecodeError, RecursionError) as error:
            raise RowError(None, f"not JSON: {_plain(error)}") from None

    def _known(self, data: bytes) -> _Object:
        """Return what can be told of an object that is no request: who it is, and where it was to go."""
        spec = _Object()
        try:
            values = _decode_any(data)
        except (msgspec.DecodeError, RecursionError):
            return spec
        for name, field in (("id", self.id_column or "id"), ("url", "url"), ("method", "method")):
            value = values.get(field)
            if isinstance(value, str) or (name == "id" and isinstance(value, int) and not isinstance(value, bool)):
                setattr(spec, name, value)
        return spec

    def _object_with_columns(self, values: dict[str, Any], data: bytes) -> _Object:
        """With a template an object may hold any names; those that are no field of ours are columns."""
        fields = dict(values)
        if self.id_column is not None:
            fields["id"] = fields.pop(self.id_column, None)
        if self.template is not None or self.body is not None:
            fields = {name: value for name, value in fields.items() if name in FIELDS}
        has_json = "json" in fields
        fields.pop("json", None)
        spec = msgspec.convert(fields, _Object)
        if has_json:
            spec.json = _decode_raw_fields(data)["json"]  # byte for byte, as without columns
        if spec.url is None and self.template is not None:
            scalars = {name: value for name, value in values.items() if isinstance(value, (str, int, float))}
            spec.url = self._filled(
                {name: value if isinstance(value, str) else _encode(value).decode() for name, value in scalars.items()}
            )
            self._check_own(spec)
        self._fill_body(spec, values, typed=True)
        return spec

    def _fill_body(self, spec: _Object, values: Mapping[str, Any], *, typed: bool = False) -> None:
        """Give a row that has no body the template's."""
        if self.body is None or spec.body is not None or bytes(spec.json):
            return
        spec.method = spec.method or self.method or "POST"
        try:
            content = self.body.fill(values, typed=typed)
        except KeyError as error:
            name = error.args[0]
            raise RowError(name, f"column {name!r} of the {self.body.option} template is missing") from None
        except ValueError as error:
            raise RowError(None, str(error)) from None
        if self.body.json:
            spec.json = msgspec.Raw(content)
        else:
            spec.body = content.decode()

    def _check_own(self, spec: _Object) -> None:
        """Refuse a row whose URL is the template's and that would be the same request as every other."""
        if self.template is None or self.template.columns or (self.body is not None and self.body.columns):
            return
        if spec.params or spec.body is not None or bytes(spec.json):
            return
        raise RowError(None, "--url names no column, and the row has no params and no body of its own")

    def _filled(self, values: Mapping[str, str]) -> str:
        assert self.template is not None
        try:
            return self.template.fill(values)
        except KeyError as error:
            name = error.args[0]
            raise RowError(name, f"column {name!r} of the --url template is missing or empty") from None

    def _row(self, line: int, size: int, spec: _Object) -> Row:
        url = spec.url
        if not url:
            raise RowError("url", "the url is missing")
        host = self._host(url)
        method = spec.method or self.method or "GET"
        if not is_token(method):
            raise RowError("method", f"{method!r} is no HTTP method")
        row = Row(
            line=line,
            id=line if spec.id is None else spec.id,
            url=url,
            host=host,
            method=method.upper(),
            headers=self._merged(spec.headers),
            params=spec.params,
            idempotent=spec.idempotent,
            cost=self.cost,
            size=size + 512,
        )
        self._content(row, spec)
        if spec.priority is not None:
            row.priority = _checked(units.priority, spec.priority, "priority")
        if spec.cost is not None:
            row.cost = _cost(spec.cost)
        return row

    def _host(self, url: str) -> str:
        """Return the name of the limiter; the client checks the rest of the URL when it is sent."""
        end = url.find("/", 8)
        origin = url[:end]
        host = self._hosts.get(origin) if end > 0 else None
        if host is None:
            host = _sendable(address.parse, url, "url").origin.key
            if end > 0 and len(self._hosts) < _MANY_HOSTS:
                self._hosts[origin] = host
        elif not url.isprintable():
            _sendable(address.parse, url, "url")
        return host

    def _merged(self, own: dict[str, str] | None) -> dict[str, str] | None:
        if not own:
            return self.headers or None
        _sendable(checked, own, "headers")
        names = {name.lower() for name in own}
        return {name: value for name, value in self.headers.items() if name.lower() not in names} | own

    @staticmethod
    def _content(row: Row, spec: _Object) -> None:
        raw = bytes(spec.json)
        has_json = bool(raw) and raw != b"null"
        if spec.body is None and not has_json:
            return
        if spec.body is not None and has_json:
            raise RowError("body", "json and body exclude each other")
        if has_json:
            row.content = raw
            names = {name.lower() for name in row.headers or ()}
            if "content-type" not in names:
                row.headers = (row.headers or {}) | _JSON_TYPE
        elif isinstance(spec.body, str):
            row.content = spec.body.encode()
        else:
            row.content = _binary(spec.body)


def _binary(body: dict[str, str] | None) -> bytes:
    if body is None or set(body) != {"base64"}:
        raise RowError("body", 'the body is a string or {"base64": "..."}')
    try:
        return base64.b64decode(body["base64"], validate=True)
    except (binascii.Error, ValueError):
        raise RowError("body", "the body's base64 cannot be decoded") from None


def _cost(cost: int | dict[str, int]) -> int | dict[str, int]:
    for amount in cost.values() if isinstance(cost, dict) else (cost,):
        _checked(units.integer, amount, "cost", "cost", 0)
    return cost


def _checked(check: Any, value: object, field: str, *more: object) -> Any:
    try:
        return check(value, *more)
    except OptionsError as error:
        raise RowError(field, str(error)) from None


def _sendable(check: Callable[[Any], T], value: object, field: str) -> T:
    try:
        return check(value)
    except InvalidRequest as error:
        raise RowError(field, str(error)) from None


def _column(name: str, text: str, decode: Callable[[str], Any]) -> Any:
    try:
        return decode(text)
    except msgspec.ValidationError as error:
        raise RowError(name, _wrong_field(str(error)).message) from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise RowError(name, f"not JSON: {_plain(error)}") from None


def _string(data: bytes) -> str:
    try:
        value = _decode_any(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RowError(None, f"not JSON: {_plain(error)}") from None
    assert isinstance(value, str)
    return value.strip()


def _plain(error: Exception) -> str:
    return str(error).removeprefix("JSON is malformed: ")


def _wrong_field(found: str) -> RowError:
    """Say a decoder's complaint with the field's name, and the nearest name for an unknown one."""
    unknown = re.search(r"unknown field `(.*?)`", found)
    if unknown:
        name = unknown[1]
        nearest = difflib.get_close_matches(name, FIELDS, n=1)
        hint = f"; did you mean {nearest[0]!r}?" if nearest else f"; the fields are {', '.join(FIELDS)}"
        return RowError(name, f"unknown field {name!r}{hint}")
    complaint, _, path = found.partition(" - at `$.")
    field = re.split(r"[.\[`]", path)[0] or None
    return RowError(field, complaint.replace("`", ""))


def _invalid(line: int, error: RowError, spec: _Object) -> Invalid:
    where = f"line {line}" + (f", field {error.field}" if error.field else "")
    return Invalid(
        line=line,
        field=error.field,
        message=f"{where}: {error.message}",
        id=spec.id,
        url=spec.url,
        method=spec.method,
    )
