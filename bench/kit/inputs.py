"""The inputs of the programs, made here so that everybody has the same: PostScript, expressions, a problem for a solver, C++.

SPDX-License-Identifier: BSD-2-Clause
"""

import random

from kit import TOP

HEADERS = ("algorithm", "any", "array", "bitset", "chrono", "deque", "filesystem", "functional", "future", "iostream", "list", "map", "memory", "optional",
           "queue", "random", "regex", "set", "sstream", "string", "thread", "tuple", "unordered_map", "variant", "vector")


def c_sources(file):
    """The C sources of this tree, one after the other."""
    for path in sorted(path for folder in ("include", "src") for path in (TOP / folder).rglob("*.[ch]")):
        file.write(path.read_text())


def postscript(file, pages):
    """Pages of paths, text, dictionaries and strings: some 85 kilobytes each."""
    source = random.Random(2006)
    file.write("%!PS-Adobe-3.0\n/Times-Roman findfont 9 scalefont setfont\n/record { 10 dict begin /y exch def /x exch def /s exch def x y moveto s show "
               "/n s length def /t n string def t 0 s putinterval currentdict end pop } bind def\n")
    for page in range(pages):
        file.write(f"%%Page: {page + 1}\ngsave\n")
        for _ in range(900):
            x, y = source.randrange(50, 550), source.randrange(50, 780)
            kind = source.randrange(4)
            if kind == 0:
                file.write(f"({source.getrandbits(160):x}) {x} {y} record\n")
            elif kind == 1:
                points = " ".join(f"{x + source.randrange(40)} {y + source.randrange(40)} lineto" for _ in range(8))
                file.write(f"newpath {x} {y} moveto {points} closepath {source.random():.3f} setgray fill\n")
            elif kind == 2:
                file.write(f"newpath {x} {y} moveto {x + 30} {y} {x} {y + 30} {x + 30} {y + 30} curveto stroke\n")
            else:
                file.write(f"/k{source.randrange(500)} [ {' '.join(str(source.randrange(1000)) for _ in range(20))} ] def\n")
        file.write("grestore showpage\n")


def expression(source, depth, names):
    if depth == 0 or source.random() < 0.1:
        return str(source.randrange(1000)) if not names or source.random() < 0.5 else source.choice(names)
    kind = source.randrange(6)
    if kind < 3:
        return f"({expression(source, depth - 1, names)} {source.choice('+-*<')} {expression(source, depth - 1, names)})"
    if kind == 3:
        return f"(if {expression(source, depth - 1, names)} then {expression(source, depth - 1, names)} else {expression(source, depth - 1, names)})"
    name = f"v{source.randrange(200)}"
    return f"(let {name} = {expression(source, depth - 1, names)} in {expression(source, depth - 1, names + [name])})"


def expressions(file):
    """A program a line for bench/programs/optimise.lua; half a megabyte, as smlng had."""
    source = random.Random(2001)
    written = 0
    while written < 513000:
        line = expression(source, 9, ["x", "y", "z"])
        written += file.write(line + "\n")


def problem(file, holes):
    """More integers than values, through a function without a definition, and all different: unsatisfiable, and some work to find out."""
    file.write("(set-logic QF_UFLIA)\n(declare-fun f (Int) Int)\n")
    for i in range(holes + 1):
        file.write(f"(declare-const x{i} Int)(assert (and (<= 1 (f x{i})) (<= (f x{i}) {holes})))\n")
        file.write("".join(f"(assert (not (= (f x{i}) (f x{j}))))\n" for j in range(i)))
    file.write("(check-sat)\n")


def cpp(file, sets):
    """A large C++ file: most of the standard library, and its containers instantiated `sets` times."""
    file.write("".join(f"#include <{header}>\n" for header in HEADERS))
    for i in range(sets):
        file.write(f"struct s{i} {{ int a[{i + 1}]; std::string t; bool operator<(const s{i} &o) const {{ return t < o.t; }} }};\n"
                   f"int f{i}(int n) {{ std::map<s{i}, std::vector<s{i}>> m; std::set<std::pair<int, std::string>> q; "
                   f"std::unordered_map<std::string, std::optional<s{i}>> u; std::vector<std::variant<int, s{i}>> w; "
                   f"for (int k = 0; k < n; k++) {{ s{i} v{{}}; v.t = std::to_string(k); m[v].push_back(v); q.insert({{k, v.t}}); u[v.t] = v; w.emplace_back(v); }} "
                   f"std::sort(w.begin(), w.end(), [](const auto &x, const auto &y) {{ return x.index() < y.index(); }}); "
                   f"return (int)(m.size() + q.size() + u.size() + w.size()); }}\n")
