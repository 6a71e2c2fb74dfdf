"""Writes tests/data/jinja_cases.json: template snippets and what jinja2 makes of them.

    pip install jinja2==3.1.6
    python tests/oracle/make_jinja_cases.py
    python tests/oracle/make_jinja_cases.py --random 20000 --seed 1 --out more.json   # then, with the tests:
    ANEMONE_JINJA_CASES=more.json unit_tests --test-case='snippets*'

The environment is the one transformers renders chat templates in: immutable sandbox, trim_blocks, lstrip_blocks,
loop controls, {% generation %}, a tojson without HTML escapes, raise_exception, strftime_now (fixed here).
"""

import argparse
import copy
import datetime
import json
import pathlib
import random
import re

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox
import jinja2.utils

from jinja_snippets import CONTEXT, SNIPPETS, random_snippet


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("render_body"), [], [], body).set_lineno(line)

    def render_body(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def strftime_now(format):
    return datetime.datetime(2026, 11, 15, 2, 31, 4).strftime(format)


class TemplateNamespace(jinja2.utils.Namespace):
    """As transformers 5.22: no names that begin with an underscore."""

    def __init__(*args, **kwargs):
        self, args = args[0], args[1:]
        for name in dict(*args, **kwargs):
            TemplateNamespace.check(name)
        jinja2.utils.Namespace.__init__(self, *args, **kwargs)

    def __setitem__(self, name, value):
        TemplateNamespace.check(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    @staticmethod
    def check(name):
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError(name)


def make_environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = strftime_now
    env.globals["namespace"] = TemplateNamespace
    return env


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--random", type=int, default=0, help="that many random snippets instead of the fixed ones")
    args.add_argument("--seed", type=int, default=1)
    args.add_argument("--out", default=pathlib.Path(__file__).parent.parent / "data" / "jinja_cases.json")
    args = args.parse_args()
    rng = random.Random(args.seed)
    snippets = [random_snippet(rng) for _ in range(args.random)] if args.random else SNIPPETS
    env = make_environment()
    context = {"messages": None, "tools": None, "documents": None, "add_generation_prompt": False,
               "bos_token": "", "eos_token": "", **CONTEXT}
    cases = []
    for source in snippets:
        case = {"template": source}
        try:
            case["out"] = env.from_string(source).render(**copy.deepcopy(context))  # indent of a list changes it
        except Exception as e:
            case["error"] = f"{type(e).__name__}: {e}"
        if re.search(r" at 0x[0-9a-f]+|(?i:generator object)", case.get("out", "")):
            continue  # an address: differs from run to run
        cases.append(case)
    with open(args.out, "w") as f:
        f.write('{"made_with": "jinja2 %s",\n"context": %s,\n"cases": [\n' % (jinja2.__version__, json.dumps(CONTEXT)))
        f.write(",\n".join(json.dumps(c) for c in cases))
        f.write("\n]}\n")
    errors = sum("error" in c for c in cases)
    print(f"{len(cases)} snippets, {errors} of them errors")


if __name__ == "__main__":
    main()
