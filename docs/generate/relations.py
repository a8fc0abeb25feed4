"""Relations, columns and functions, from the comments in the database."""

from __future__ import annotations

import re
from itertools import groupby

from docs.generate.markdown import table
from hypergauge.sql.server.database import Connection

__all__ = ["sections"]

_COLUMNS = """
    select c.relname::text, obj_description(c.oid, 'pg_class'), a.attname::text, format_type(a.atttypid, a.atttypmod),
           col_description(c.oid, a.attnum)
    from pg_class c join pg_attribute a on a.attrelid = c.oid
    where c.relnamespace = 'bench'::regnamespace and c.relkind in ('r', 'v', 'm', 'p') and a.attnum > 0 and not a.attisdropped
    order by c.relname, a.attnum
"""
_FUNCTIONS = """
    select proname::text, pg_get_function_arguments(oid), replace(pg_get_function_result(oid), '"', ''), obj_description(oid, 'pg_proc')
    from pg_proc where pronamespace = 'bench'::regnamespace order by proname, oid::regprocedure::text
"""
# PostgreSQL's spelling of types and defaults, and the shorter one of the page.
_SHORT = (
    (r"timestamp with time zone", "timestamptz"),
    (r"TABLE\((.*)\)", r"table (\1)"),
    (r"SETOF ", "setof "),
    (r" DEFAULT ", " default "),
    (r"(NULL|'\w*')::[\w ]+(\[\])?", lambda default: default[1].replace("NULL", "null")),
)


def sections(connection: Connection) -> str:
    """Return a section for each relation, with its columns in their order, and for each function, with its arguments."""
    relations = connection.execute(_COLUMNS).fetchall()
    functions = connection.execute(_FUNCTIONS).fetchall()
    names = list(dict.fromkeys(relation for relation, *_ in relations))
    parts = ["## Relations", _links(names)]
    for (relation, comment), columns in groupby(relations, key=lambda row: row[:2]):
        rows = ([f"`{name}`", _short(type_), meaning] for _, _, name, type_, meaning in columns)
        parts += [f"### {relation}", comment, table(["column", "type", "meaning"], rows)]
    parts += ["## Functions", _links([name for name, *_ in functions])]
    for name, arguments, result, comment in functions:
        call = [_lines(f"{name}({_short(arguments)})"), _lines(f"returns {_short(result)}")]
        parts += [f"### {name}", comment, "\n".join(["```text", *call, "```"])]
    return "\n\n".join(parts)


def _links(names: list[str]) -> str:
    return ",\n".join(f"[{name}](#{name})" for name in names) + "."


def _short(text: str) -> str:
    for long, short in _SHORT:
        text = re.sub(long, short, text)
    return text


def _lines(signature: str) -> str:
    """Return a signature with a line for each argument, if it is long."""
    if len(signature) <= 100:
        return signature
    before, arguments = signature.removesuffix(")").split("(", 1)
    return f"{before}(\n    " + arguments.replace(", ", ",\n    ") + "\n)"
