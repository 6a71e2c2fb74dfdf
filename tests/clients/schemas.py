"""JSON that a schema allows, judged by the jsonschema package: random answers of `anemone serve` to many schemas.
    schemas.py path/to/anemone [--seeds 3]
Exit status 77, "skipped", where the package jsonschema is not installed.
"""
import argparse
import json
import sys
import tempfile

try:
    import jsonschema
except ImportError as e:
    print(f"skipped: {e.name} is not installed")
    sys.exit(77)

from server import Server, demo_bundle

SMALL = {"type": "string", "maxLength": 6}
SCHEMAS = [
    {"type": "object", "properties": {"a": SMALL, "b": {"type": "integer", "minimum": -20, "maximum": 345}}, "required": ["a", "b"]},
    {"type": "object", "properties": {"a": SMALL, "b": {"type": "null"}, "c": {"type": "boolean"}}, "required": ["c"], "additionalProperties": False},
    {"type": "object", "properties": {"ab": {"type": "null"}}, "additionalProperties": {"type": "integer", "minimum": 1, "maximum": 3}},
    {"type": "array", "items": {"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 1000}, "minItems": 1, "maxItems": 4},
    {"type": "array", "prefixItems": [{"const": "x"}, {"type": "number", "minimum": 0, "maximum": 10}], "items": False, "minItems": 2},
    {"type": "array", "prefixItems": [{"type": "boolean"}], "items": {"enum": [1, "two", None]}, "minItems": 3, "maxItems": 5},
    {"type": "number", "minimum": -2.5, "maximum": 7},
    {"type": "number", "exclusiveMinimum": 0, "maximum": 3},
    {"type": "number", "maximum": -1.5},
    {"type": "integer", "minimum": 99, "maximum": 12345},
    {"type": "integer", "maximum": -7, "minimum": -1002},
    {"type": "string", "minLength": 3, "maxLength": 5},
    {"type": "string", "pattern": "^[A-Z]{2}-\\d{3,5}(x|y)?$"},
    {"type": "string", "pattern": "^(?:[a-c]\\w|\\s[^a-z]){1,4}$"},
    {"type": "string", "format": "date"},
    {"type": "string", "format": "date-time"},
    {"type": "string", "format": "uuid"},
    {"type": "string", "format": "ipv4"},
    {"type": "string", "format": "email"},
    {"enum": ["red", 5, None, {"deep": [1, {"x": "\u00e9\"\\"}]}]},
    {"const": {"a": [True, "line\nbreak"]}},
    {"anyOf": [{"type": "integer", "minimum": 0, "maximum": 9}, {"type": "object", "properties": {"k": {"const": "v"}}, "required": ["k"]}]},
    {"oneOf": [{"type": "object", "properties": {"kind": {"const": "a"}, "n": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["kind", "n"], "additionalProperties": False},
               {"type": "object", "properties": {"kind": {"const": "b"}, "s": SMALL}, "required": ["kind", "s"], "additionalProperties": False}]},
    {"allOf": [{"type": "object", "properties": {"x": {"type": "integer", "minimum": 0}}, "required": ["x"]},
               {"properties": {"x": {"maximum": 5}, "y": {"type": "boolean"}}, "required": ["y"]}]},
    {"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "object", "properties": {"v": {"type": "integer", "minimum": 0, "maximum": 9},
        "left": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]}}, "required": ["v", "left"], "additionalProperties": False}}},
    {"type": ["integer", "null", "boolean"]},
    {"type": "object", "properties": {"list": {"type": "array", "items": {"type": "object", "properties": {"id": {"type": "integer", "minimum": 1, "maximum": 99}, "tag": {"enum": ["u", "v"]}},
        "required": ["id"], "additionalProperties": False}, "maxItems": 3}}, "required": ["list"], "additionalProperties": False},
]


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("command")
    arguments.add_argument("--seeds", type=int, default=3)
    args = arguments.parse_args()
    whole = 0
    with tempfile.TemporaryDirectory() as folder:
        bundle = demo_bundle(args.command, folder, "--context", "512", "--tokens", "1,32")
        with Server(args.command, [bundle]) as server:
            for schema in SCHEMAS:
                validator = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
                for seed in range(args.seeds):
                    status, body = server.post("/v1/chat/completions", {
                        "messages": [{"role": "user", "content": "Write something."}], "temperature": 1.0 + seed, "top_k": 0, "top_p": 1, "min_p": 0,
                        "seed": seed, "max_tokens": 400, "response_format": {"type": "json_schema", "json_schema": {"schema": schema}}})
                    assert status == 200, (schema, body)
                    choice = body["choices"][0]
                    if choice["finish_reason"] == "length":
                        continue
                    whole += 1
                    validator.validate(json.loads(choice["message"]["content"]))
    assert whole >= 0.9 * args.seeds * len(SCHEMAS), f"only {whole} answers ended by themselves"
    print(f"{whole} answers to {len(SCHEMAS)} schemas, all valid")


main()
