"""One self-contained HTML page: machine, versions, and for each experiment its plot, tables and conditions.

SPDX-License-Identifier: BSD-2-Clause
"""

import base64
import html

from kit import document
from kit.results import counted

STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:1180px;margin:2em auto;padding:0 1em;color:#222}table{border-collapse:collapse;font-size:13px;margin:.5em 0 1.2em}
td,th{border-bottom:1px solid #ddd;padding:2px 8px;text-align:right}td:first-child,th:first-child{text-align:left}h2{margin-top:2.2em;border-top:1px solid #ccc;padding-top:.6em}
img,svg{max-width:100%;height:auto}.state{color:#666;font-size:13px}.ahead{color:#0b6e4f}.behind{color:#c0392b}nav a{display:inline-block;margin-right:1em}"""


def html_table(rows):
    """A table of the document, in HTML."""
    cells = [[html.escape(cell.strip()) for cell in row.strip("|").split("|")] for row in rows if not row.startswith("|---")]
    text = "".join("<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in row) + "</tr>" for tag, row in zip(["th"] + ["td"] * len(cells), cells))
    return f"<table>{text}</table>"


def table(record, metric):
    head, _, *rows = document.table(record, metric)
    _, what, better = head.split("**")
    return f"<p><b>{html.escape(what)}</b>{html.escape(better)}</p>{html_table(rows)}"


def plot(name, folder):
    path = folder / f"{name}.svg"
    return path.read_text()[path.read_text().index("<svg"):] if path.exists() else ""


def picture(path):
    return f'<img alt="{html.escape(path.stem)}" src="data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}">' if path.exists() else ""


def section(name, record, folder):
    tables = "".join(table(record, metric) for metric in counted(record))
    pictures = "".join(picture(folder / path) for path in record["pictures"].values())
    proofs = "".join(f"<li>{html.escape(what)}: malloc of {html.escape(library)}</li>" for what, library in record["proofs"].items())
    proofs = f"<details><summary>Which allocator ran</summary><ul>{proofs}</ul></details>" if proofs else ""
    return (f'<h2 id="{name}">{html.escape(record["title"])} ({html.escape(record["paper"])})</h2><p>{html.escape(record["about"])}</p>'
            f'<p class="state">{html.escape(document.state_of(record))}. {html.escape(document.versions_line(record))}</p>{plot(name, folder) if record["summary"] else ""}{pictures}{tables}{proofs}')


def write(everything, folder):
    links = "".join(f'<a href="#{name}">{html.escape(record["title"])}</a>' for name, record in everything["experiments"].items())
    conditions = "".join(f"<p>{html.escape(line)}</p>" for line in document.conditions(everything))
    body = "".join(section(name, record, folder) for name, record in everything["experiments"].items())
    (folder / "index.html").write_text(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>vmag: the experiments</title><style>{STYLE}</style><h1>The experiments, today</h1>'
        f'{conditions}<nav>{links}</nav>'
        f"<h2>The bars</h2>{html_table(document.bars(everything))}<h2>Where vmag stands</h2><p>By the best rounds, against the best peer; above 1 it is ahead.</p>{html_table(document.standing(everything))}{body}</html>\n")
