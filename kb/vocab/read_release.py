"""Read the option catalog of one release out of its wheel: ``python -m kb.vocab.read_release WHEEL``.

Owns the making of ``catalogs/<engine>-<version>.json`` for SGLang releases with argparse calls and for vLLM.
Must not import, install or run what it reads: sources are parsed, never executed. What is no literal is
left out.
"""

from __future__ import annotations

import ast
import email
import json
import re
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kb.errors import KbctlError
from kb.vocab import options, pins

_FOLDER = Path(__file__).with_name("catalogs")
_PINNED = frozenset(
    (
        *(
            "flashinfer-python",
            "flashinfer-cubin",
            "sgl-kernel",
            "sglang-kernel",
            "torch",
            "triton",
            "tilelang",
        ),
        *("nvidia-cutlass-dsl", "flash-attn-4", "sgl-deep-gemm", "compressed-tensors", "apache-tvm-ffi"),
        *("quack-kernels", "transformers", "xgrammar"),
    )
)
_NESTED = ("Attention", "Kernel", "Compilation", "Speculative", "Pass", "Parallel", "Mamba")
_UNKNOWN = object()


def main(arguments: list[str]) -> int:
    """Read each wheel named and write its catalog beside the others."""
    for name in arguments:
        catalog = read_wheel(Path(name))
        path = _FOLDER / f"{catalog['engine']}-{catalog['version']}.json"
        path.write_text(as_text(catalog), encoding="utf-8")
        sys.stdout.write(f"{path}: {len(catalog['flags'])} flags\n")
    return 0


def read_wheel(path: Path) -> dict[str, Any]:
    """The catalog of a wheel as JSON data. Raises ``KbctlError`` for a wheel of another project or style."""
    with zipfile.ZipFile(path) as wheel:
        meta = email.message_from_string(_member(wheel, r"dist-info/METADATA$"))
        engine, version = meta["Name"].lower(), meta["Version"]
        readers = {"sglang": _read_sglang, "vllm": _read_vllm}
        if engine not in readers:
            raise KbctlError(f"no reader for {engine}", where=str(path), tip="give a wheel of sglang or vllm")
        found = readers[engine](wheel)
    if not found["flags"]:
        raise KbctlError("no argparse calls in this release", where=str(path), tip="extend the reader")
    head = {"engine": engine, "version": version, "source": found.pop("source"), "pinned": _pins(meta)}
    found["flags"] = [_with_words(engine, version, row) for row in found["flags"]]
    return {**head, **found}


def as_text(catalog: Mapping[str, Any]) -> str:
    """A catalog as it is stored: one flag a line."""
    head = json.dumps({key: value for key, value in catalog.items() if key != "flags"}, separators=(",", ":"))
    rows = ",\n".join(json.dumps(row, separators=(",", ":"), ensure_ascii=False) for row in catalog["flags"])
    return f'{head[:-1]},"flags":[\n{rows}\n]}}\n'


def _member(wheel: zipfile.ZipFile, pattern: str) -> str:
    name = next(one for one in wheel.namelist() if re.search(pattern, one))
    return wheel.read(name).decode("utf-8")


def _pins(meta: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in meta.get_all("Requires-Dist") or ():
        named = re.match(r"([A-Za-z0-9_.-]+)(?:\[[^\]]*\])?\s*([^;]*)(;.*)?$", text)
        name = re.sub(r"[-_.]+", "-", named[1]).lower() if named else ""
        if named and name in _PINNED and named[2].strip() and "extra" not in (named[3] or ""):
            found.setdefault(pins.canonical_component(name), named[2].strip(" ()"))
    return found


def _read_sglang(wheel: zipfile.ZipFile) -> dict[str, Any]:
    tree = ast.parse(_member(wheel, r"sglang/srt/server_args\.py$"))
    names = _constants(tree)
    defaults = _fields_of(tree, "ServerArgs", names)
    flags = [
        row
        for call in _calls(tree, "add_argument")
        if (row := _argparse_row(call, names, defaults)) is not None
    ]
    text = "\n".join(
        wheel.read(one).decode("utf-8", "replace") for one in wheel.namelist() if one.endswith(".py")
    )
    env = sorted(set(re.findall(r"\b((?:SGL|SGLANG|FLASHINFER)_[A-Z0-9_]{3,})\b(?=[\"']|\s*=\s*Env)", text)))
    return {"source": "srt/server_args.py and environment names, read with ast", "env": env, "flags": flags}


def _read_vllm(wheel: zipfile.ZipFile) -> dict[str, Any]:
    sources = [
        ast.parse(wheel.read(one))
        for one in wheel.namelist()
        if re.search(r"vllm/(config/\w+|v1/attention/backends/(\w+/)*\w*registry)\.py$", one)
        or one.endswith("layers/quantization/__init__.py")
    ]
    names: dict[str, Any] = {}
    for tree in sources:
        names |= _enums(tree)
    for _ in range(2):
        for tree in sources:
            names |= _constants(tree, names)
    classes = {name: fields for tree in sources for name, fields in _config_classes(tree, names).items()}
    arguments = ast.parse(_member(wheel, r"vllm/engine/arg_utils\.py$"))
    flags = [
        row
        for call in _calls(arguments, "add_argument")
        if (row := _vllm_row(call, arguments, classes, names))
    ]
    flags += _frontend_rows(ast.parse(_member(wheel, r"vllm/entrypoints/openai/cli_args\.py$")), names, flags)
    env = sorted(set(re.findall(r"\"(VLLM_[A-Z0-9_]+)\"\s*:", _member(wheel, r"vllm/envs\.py$"))))
    nested = {f"{one}Config" for one in _NESTED}
    fields = {
        name: {key: row.get("choices") for key, row in rows.items()}
        for name, rows in classes.items()
        if name in nested
    }
    return {
        "source": "engine/arg_utils.py, config, envs.py, entrypoints cli_args.py read with ast",
        "fields": fields,
        "env": env,
        "flags": flags,
    }


def _calls(tree: ast.AST, method: str) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == method:
            yield node


def _argparse_row(
    call: ast.Call, names: Mapping[str, Any], defaults: Mapping[str, dict[str, Any]]
) -> dict[str, Any] | None:
    spellings = [
        one.value for one in call.args if isinstance(one, ast.Constant) and isinstance(one.value, str)
    ]
    if not spellings or not spellings[0].startswith("-"):
        return None
    given = {one.arg: one.value for one in call.keywords if one.arg}
    dests = [one.lstrip("-").replace("-", "_") for one in spellings]
    row: dict[str, Any] = {
        "flag": spellings[0],
        "dest": next((one for one in dests if one in defaults), dests[0]),
    }
    if len(spellings) > 1:
        row["aliases"] = spellings[1:]
    _add_argparse_words(row, given, names, defaults)
    return row


def _add_argparse_words(
    row: dict[str, Any],
    given: Mapping[str, ast.expr],
    names: Mapping[str, Any],
    defaults: Mapping[str, dict[str, Any]],
) -> None:
    for key in ("dest", "nargs"):
        if (value := _literal(given.get(key), names)) is not _UNKNOWN and value is not None:
            row[key] = value
    action = ast.unparse(given["action"]).strip("'\"") if "action" in given else None
    if action in ("store_true", "store_false", "argparse.BooleanOptionalAction") or "StoreTrue" in (
        action or ""
    ):
        row["type"] = "bool"
        row |= {"default": False} if action == "store_true" else {}
    elif "type" in given:
        row["type"] = ast.unparse(given["type"])
    if action and action != "store_true":
        row["action"] = action
        row |= {"deprecated": True} if action.startswith("Deprecated") else {}
    choices = _literal(given.get("choices"), names)
    if isinstance(choices, list) and choices:
        row["choices"] = choices
    default = given.get("default")
    if isinstance(default, ast.Attribute) and default.attr in defaults:
        row |= {key: value for key, value in defaults[default.attr].items() if key == "default"}
    elif (value := _literal(default, names)) not in (_UNKNOWN, None):
        row["default"] = value
    if _literal(given.get("required"), names) is True:
        row["required"] = True


def _vllm_row(
    call: ast.Call, tree: ast.Module, classes: Mapping[str, Any], names: Mapping[str, Any]
) -> dict[str, Any] | None:
    row = _argparse_row(call, names, {})
    spread = next((one.value for one in call.keywords if one.arg is None), None)
    table = _table(tree, spread)
    if row is None or table is None or not isinstance(table.value, ast.Name):
        return row
    owner = _owner(tree, table.value.id)
    key = _literal(table.slice, names)
    found = dict(classes.get(owner or "", {}).get(key, {}))
    return {
        **row,
        "config": f"{owner}.{key}",
        **{one: value for one, value in found.items() if one not in row},
    }


def _table(tree: ast.Module, spread: ast.expr | None) -> ast.Subscript | None:
    """The ``kwargs["field"]`` behind a spread argument, also where a variable holds it."""
    if isinstance(spread, ast.Name):
        values = (
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and node.targets[0].id == spread.id
        )
        return _table(tree, next((one for one in values if not isinstance(one, ast.Name)), None))
    found = (one for one in ast.walk(spread) if isinstance(one, ast.Subscript)) if spread else iter(())
    return next(found, None)


def _owner(tree: ast.Module, variable: str) -> str | None:
    """The config class whose keyword table a variable holds."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and len(node.targets) == 1:
            target, called = node.targets[0], node.value
            if isinstance(target, ast.Name) and target.id == variable and called.args:
                return ast.unparse(called.args[0])
    return None


def _frontend_rows(
    tree: ast.Module, names: Mapping[str, Any], known: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    taken = {row["flag"] for row in known}
    rows = [row for call in _calls(tree, "add_argument") if (row := _argparse_row(call, names, {}))]
    for name in ("BaseFrontendArgs", "FrontendArgs"):
        rows += [
            {"flag": "--" + key.replace("_", "-"), "dest": key, **field}
            for key, field in _fields_of(tree, name, names).items()
        ]
    return [row for row in rows if row["flag"] not in taken]


def _config_classes(tree: ast.Module, names: Mapping[str, Any]) -> dict[str, dict[str, dict[str, Any]]]:
    found = [
        node.name
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name.endswith(("Config", "Args"))
    ]
    return {name: _fields_of(tree, name, names) for name in found}


def _fields_of(tree: ast.Module, name: str, names: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Annotated fields of a class: field → type, default and choices as a catalog row has them."""
    body = next((node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name), [])
    return {
        node.target.id: _field(node, names)
        for node in body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }


def _field(node: ast.AnnAssign, names: Mapping[str, Any]) -> dict[str, Any]:
    kind = ast.unparse(node.annotation)
    row: dict[str, Any] = {
        "type": "bool" if re.fullmatch(r"bool( \| None)?|(Optional|SkipValidation)\[bool\]", kind) else kind
    }
    value = node.value
    if isinstance(value, ast.Call):
        value = next((one.value for one in value.keywords if one.arg == "default"), None)
    default = _literal(value, names)
    if default not in (_UNKNOWN, None) and isinstance(default, str | int | float | bool | list):
        row["default"] = default
    choices = [one for word in re.findall(r"\w+", kind) for one in _listed(names.get(word))]
    choices = _literal_values(node.annotation, names) or choices
    if choices and row["type"] != "bool":
        row["choices"] = list(dict.fromkeys(choices))
    return row


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _literal_values(annotation: ast.expr, names: Mapping[str, Any]) -> list[Any]:
    """What the Literal types of an annotation allow, with aliases of others resolved."""
    slices = [
        node.slice
        for node in ast.walk(annotation)
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) in ("Literal", "typing.Literal")
    ]
    values: list[Any] = []
    for one in (node for part in slices for node in ast.walk(part)):
        if isinstance(one, ast.Name):
            values += _listed(names.get(one.id))
        elif isinstance(one, ast.Constant) and one.value is not None:
            values.append(one.value)
    return values


def _enums(tree: ast.Module) -> dict[str, list[Any]]:
    found = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and any(_names_values(base) for base in node.bases):
            found[node.name] = [
                one.targets[0].id
                for one in node.body
                if isinstance(one, ast.Assign)
                and isinstance(one.targets[0], ast.Name)
                and one.targets[0].id.isupper()
            ]
    return {name: values for name, values in found.items() if values}


def _names_values(base: ast.expr) -> bool:
    """Whether an enum's members are what users type (those of an integer enum are not)."""
    return "Enum" in ast.unparse(base) and "IntEnum" not in ast.unparse(base)


def _constants(tree: ast.Module, known: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Module-level names with literal values; type aliases over Literal count as lists."""
    names = dict(known or {})
    for node in tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        value = getattr(node, "value", None)
        if isinstance(target, ast.Name) and isinstance(value, ast.expr):
            found = _literal_values(value, names) or _literal(value, names)
            if found is not _UNKNOWN:
                names[target.id] = found
    return names


def _literal(node: ast.expr | None, names: Mapping[str, Any]) -> Any:
    """The value of an expression of literals and known names, or the mark for unknown."""
    if node is None:
        return None
    if isinstance(node, ast.Name):
        return names.get(node.id, _UNKNOWN)
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        values = [_literal(one, names) for one in node.elts]
        known = sorted(values) if isinstance(node, ast.Set) and _UNKNOWN not in values else values
        return _UNKNOWN if _UNKNOWN in values else known
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _literal(node.left, names), _literal(node.right, names)
        return left + right if isinstance(left, list) and isinstance(right, list) else _UNKNOWN
    if isinstance(node, ast.Call):
        return _literal(node.args[0], names) if _is_copy(node) else _UNKNOWN
    return _evaluated(node)


def _is_copy(call: ast.Call) -> bool:
    return ast.unparse(call.func) in ("get_args", "list", "sorted", "tuple") and bool(call.args)


def _evaluated(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        return _UNKNOWN


def _with_words(engine: str, version: str, row: dict[str, Any]) -> dict[str, Any]:
    """The row with the project's own words about the flag, as catalogued for the nearest release."""
    for release in reversed(options.neighbours(engine, version)):
        known = options.catalog(engine, release).find(row["dest"])
        if known and release != version:
            words = {key: value for key in ("about", "role") if (value := getattr(known, key))}
            return {**row, **words}
    return row


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
