#!/usr/bin/env python3
"""Makes the tables that the double's headers are compared with.

    make_tables.py CRATES                 # a folder with objc2-core-ml-0.3.2, objc2-foundation-0.3.2, objc2-core-video-0.3.2

The crates (https://crates.io/crates/objc2-core-ml and so on, by Mads Marquart and others; Zlib OR Apache-2.0 OR MIT) are
generated from Apple's headers. Only names, numbers and nullability are taken: facts about an interface.

| table | columns |
|---|---|
| methods.tsv | class, + or -, selector, ownership family, nullable or not (the result; errors make it nullable), error or not |
| constants.tsv | name in C, value |
"""
import pathlib
import re
import sys

CLASSES = {  # of Foundation, those that the double has
    "NSString", "NSNumber", "NSArray", "NSMutableArray", "NSSet", "NSDictionary", "NSMutableDictionary", "NSError",
    "NSURL", "NSProcessInfo", "NSValue", "NSObjectProtocol", "NSCopying", "NSMutableCopying", "NSFastEnumeration",
}


def methods(text):
    """Rows of one generated file."""
    rows = []
    owner = None
    lines = text.splitlines()
    for i, line in enumerate(lines):
        m = re.match(r"\s*(?:pub )?(?:unsafe )?(?:impl(?:<[^{]*?>)? |trait )([A-Za-z0-9_]+)", line)
        if m and "{" in " ".join(lines[i:i + 4]):
            owner = m.group(1)
        m = re.match(r"\s*#\[unsafe\(method\(([^)]*)\)\)\]", line)
        if not m or not owner:
            continue
        selector, family = m.group(1), "none"
        signature = ""
        for j in range(i + 1, min(i + 40, len(lines))):
            f = re.match(r"\s*#\[unsafe\(method_family = (\w+)\)\]", lines[j])
            if f:
                family = f.group(1)
            if not lines[j].strip().startswith(("#", "///")):
                signature += " " + lines[j].strip()
                if lines[j].rstrip().endswith(";"):
                    break
        error = selector.endswith("_")
        result = signature.split("->")[-1] if "->" in signature else ""
        instance = re.search(r"fn (?:r#)?\w+(?:<[^(]*>)?\(\s*(?:&self|&mut self|this: )", signature)
        nullable = error or result.strip().startswith("Option<") or "*mut" in result or "*const" in result
        rows.append((owner, "-" if instance else "+", selector.rstrip("_"), family,
                     "nullable" if nullable else "nonnull", "error" if error else ""))
    return rows


def constants(text):
    rows = []
    for m in re.finditer(r'#\[doc\(alias = "(\w+)"\)\]\s*(?:pub )?const \w+(?:: Self)? = (?:Self\()?([^;]*?)\)?;', text):
        rows.append((m.group(1), m.group(2)))
    for m in re.finditer(r"pub const (kCV\w+): \w+ = ([^;]*);", text):
        rows.append((m.group(1), m.group(2)))
    out = []
    for name, value in rows:
        try:
            out.append((name, str(eval(value.replace("Self::", ""), {}))))  # 0x10000 | 16
        except Exception:
            continue
    return out


def main():
    crates = pathlib.Path(sys.argv[1])
    here = pathlib.Path(__file__).parent
    rows, numbers = set(), set()
    for name in ("objc2-core-ml", "objc2-foundation", "objc2-core-video"):
        for path in sorted((crates / f"{name}-0.3.2").glob("src/**/*.rs")):
            text = path.read_text()
            found = methods(text)
            if name == "objc2-foundation":
                found = [r for r in found if r[0] in CLASSES]
            rows.update(found)
            if name == "objc2-core-ml" or path.stem in ("CVReturn", "CVPixelBuffer"):
                numbers.update(constants(text))
    (here / "methods.tsv").write_text("".join("\t".join(r) + "\n" for r in sorted(rows)))
    (here / "constants.tsv").write_text("".join("\t".join(r) + "\n" for r in sorted(numbers)))
    print(len(rows), "methods,", len(numbers), "constants")


main()
