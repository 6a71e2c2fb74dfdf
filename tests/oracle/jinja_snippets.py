"""The snippets of make_jinja_cases.py and the variables they see."""

CONTEXT = {
    "name": "World",
    "n": 7,
    "neg": -7,
    "pi": 3.14159,
    "yes": True,
    "no": False,
    "nothing": None,
    "empty": [],
    "text": "Hello, World",
    "uni": "Zürich straße ΑΣ ǆ 日本 \U0001f600",
    "lines": "one\ntwo\r\nthree\n\nfive",
    "nums": [3, 1, 2],
    "floats": [1.0, 2.5, -0.0, 1e16, 1e-5, 1e22, 123456789.123],
    "mixed": [1, "a", None, True, 2.5, [1], {"k": "v"}],
    "words": ["banana", "Apple", "cherry", "apple"],
    "d": {"b": 1, "a": 2, "C": 3},
    "nested": {"x": {"y": [10, {"z": "deep"}]}, "items": "an item", "get": 5},
    "users": [
        {"name": "Ann", "age": 30, "city": "Rome", "ok": True},
        {"name": "bob", "age": 25, "city": "rome", "ok": False},
        {"name": "Cid", "age": 30, "city": "Oslo"},
    ],
    "html": "<a href=\"x\">&'</a>",
    "quotes": ["it's", 'say "hi"', "both ' and \"", "tab\tnl\n\\", "\u0000\u007f\u00a0\u200b\ue000"],
    "tree": [{"v": 1, "c": [{"v": 2, "c": []}, {"v": 3, "c": [{"v": 4, "c": []}]}]}],
}


def exprs(*sources):
    return ["{{ " + s + " }}" for s in sources]


SNIPPETS = []

# whitespace
SNIPPETS += [
    "a\n", "a\n\n", "a\r\nb\rc\n", "\n{{ n }}\n", "  {% if yes %}\n  x\n  {% endif %}\n  y",
    "a {%- if yes %} b {%- endif %} c", "a {% if yes -%} b {% endif -%} c", "a\n  {%+ if yes %}\n b\n  {%+ endif %}\nc",
    "a {% if yes +%}\nb{% endif +%}\nc", "x {{- n -}} y", "x\n\n {{- n -}} \n\n y", "{#- c -#} x {# c #} y",
    "a\n  {# c #}\nb", "a\n  {#+ c #}\nb", "a {#- c #}\n b", "{# a +#}\nb", "{{ n }}\n  {% if yes %}x{% endif %}",
    "{% if yes %}\n\n  x{% endif %}", "{% raw %}\n {{ x }} {% y %}{% endraw %}\nz", "a  {%- raw -%}  {{ x }}  {%- endraw -%}  b",
    "a\n  {% raw %} x\n  {% endraw %}\nb", "\t{% if yes %}x{% endif %}\t{% if yes %}y{% endif %}", "{{ 'a' }}\n{{ 'b' }}",
    "x{% set a = 1 %}\ny", "{%- set a = 1 -%}\n\n z", "{% for i in nums %}\n  {{ i }}\n{% endfor %}\n", "{{\n n\n}}", "{%\nif yes\n%}a{%\nendif %}",
    "{# {{ x }} {% y %} #}ok", "{{ '{{' }} {{ '}}' }} {{ '%}' }}", "{ {n} } { % {n}", "{{'a'}}{#b#}{{'c'}}", "a{##}b", "a {#-#} b", "{", "a{", "{{ {} }}", "{{ {'a': {'b': {}}} }}",
    "  {{ n }}", "  {%- if yes %} a {% endif -%}  ", "\u00a0 {%- if yes %}x{% endif %}", "{% if yes %}\r\n a\r\n{% endif %}\r\n b", "{% if yes: %}a{% endif %}",
]

# literals
SNIPPETS += exprs(
    "1", "-1", "+1", "1_000", "0x1F", "0o17", "0b101", "1.5", "1e3", "1.5e-3", "1E5", "1_0.5", "00", "'a' 'b' \"c\"", "'it\\'s'", "'\\n\\t\\\\'",
    "'\\x41\\u00fc\\U0001f600'", "'\\101\\0'|length", "'\\d\\q'", "'a\\\nb'", "true", "True", "false", "False", "none", "None", "[]", "[1, 2,]", "()", "(1,)", "(1, 2)",
    "1, 2", "{}", "{'a': 1, 2: 'b', none: 3}", "{'a': 1,}", "[[1], (2,), {'x': [3]}]", "'日本'", "\"a'b\"", "[\"a'b\", 'c\"d']", "1.0", "100000000000000000000.0", "1e16", "1e15", "0.0001", "0.00001", "1.1e-7", "123456789012345680.0",
    "floats", "mixed", "quotes", "d", "nested", "9223372036854775807", "-0.0", "007", "1.", ".5", "1__0", "0x", "'abc", "'\\u12'", "1a",
)

# arithmetic, comparison, logic
SNIPPETS += exprs(
    "1 + 2 * 3", "(1 + 2) * 3", "7 // 2", "-7 // 2", "7 % 3", "-7 % 3", "7 % -3", "7 / 2", "6 / 2", "2 ** 10", "2 ** -1", "2 ** 3 ** 2", "-2 ** 2", "2.5 // 1", "-2.5 % 2", "5.5 % -2", "1 / 0", "1 // 0", "1 % 0", "1.0 / 0",
    "'a' + 'b'", "'a' * 3", "3 * 'a'", "'a' * -1", "[1] + [2]", "[1] * 2", "(1,) + (2,)", "[1] + (2,)", "'a' + 1", "1 + 'a'", "1 + none", "true + true", "true * 3", "1 ~ 2", "'a' ~ none ~ true ~ 1.0", "'x' ~ undefined_thing ~ 'y'",
    "1 - 2 - 3", "1 + 2 ~ 3", "2 * 3 ~ 4", "10 - 2 ~ 3", "-n", "+n", "-'a'", "- n + 1", "not n", "not not n", "not yes and no", "yes or no and no", "n and name", "no or name", "none or 0", "0 and x.y.z", "1 or x.y.z",
    "1 < 2", "1 < 2 < 3", "1 < 3 < 2", "3 > 2 >= 2", "1 == 1.0", "1 == true", "'1' == 1", "none == false", "[1, 2] == [1, 2]", "[1] == (1,)", "{'a': 1} == {'a': 1.0}", "'a' < 'b'", "'a' < 1", "none < 1", "[1, 2] < [1, 3]", "[1] < [1, 0]", "(1, 'a') < (1, 'b')",
    "1 != 2", "x == y", "x == none", "x == ''", "1 in [1, 2]", "1 not in [1, 2]", "'a' in 'abc'", "'' in 'abc'", "1 in 'abc'", "'b' in d", "2 in d", "none in [none]", "x in [1]", "1 in x", "1 in none", "1 in 5", "[] in {}", "not 1 in [2]", "not 1 == 2",
    "1 if yes else 2", "1 if no else 2", "1 if no", "(1 if no) is defined", "'a' if no else 'b' if no else 'c'", "1 if yes if no else 3", "yes and 'x' or 'y'", "1 == 1 == 1", "1 < 2 in [2]", "0.1 + 0.2", "1e308 * 10", "3.0 * 2", "10.0 ** 20", "9223372036854775807 + 0", "-9 // 4", "9 // -4", "-9 % 4.0", "0.0 == -0.0",
    "x + 1", "1 + x", "x < 1", "x ~ 1", "-x", "x()", "x.y", "x['y']", "x[0]", "x[1:]", "[x]", "{'a': x}", "(x, 1)", "x", "x|length", "x|list", "x or 'd'", "not x", "x is iterable", "x is sequence", "x is mapping", "x is string", "x is callable",
)

# look-ups and slices
SNIPPETS += exprs(
    "d.a", "d['a']", "d.zz", "d['zz']", "d.zz.y", "nested.x.y[1].z", "nested['x']['y'][0]", "nested.x.y.0", "nested['items']", "nested.items()", "nested['get']", "nested.get('x')", "nested['keys']()", "nested.keys()", "nested.values()", "d.items()", "d.items()|list", "d.keys()|list", "d.values()|list",
    "d.get('a')", "d.get('q')", "d.get('q', 5)", "d.get('q') is none", "d.copy()", "d.pop('a')", "d.update({})", "d.setdefault('a', 1)", "d.pop is defined", "nums.append(4)", "nums.append", "nums.sort()", "nums.reverse()", "nums.pop()", "nums.index(1)", "nums.index(9)", "nums.count(1)", "nums.copy()", "(1,2).index(2)", "(1,1).count(1)",
    "nums[0]", "nums[-1]", "nums[3]", "nums[3] is defined", "nums['a']", "nums[1.0]", "nums[true]", "nums.foo", "nums.foo.bar", "name[0]", "name[-1]", "name[99]", "name.foo", "none.foo", "none.foo.bar", "n.foo", "nothing['x']", "uni[0]", "uni[1]", "uni[-1]", "uni[7:13]", "uni[::-1]", "uni|length",
    "name[1:3]", "name[:2]", "name[2:]", "name[:]", "name[::2]", "name[::-1]", "name[-3:-1]", "name[5:1]", "name[5:1:-1]", "name[100:]", "name[-100:2]", "nums[1:]", "nums[:-1]", "nums[::-1]", "nums[::0]", "nums['a':]", "(1,2,3)[1:]", "range(10)[2:5]|list", "range(10)[3]", "range(5)", "range(1, 10, 3)", "range(5)|list", "range(5, 0, -2)|list", "range(0)|list", "range(1,2,0)", "range('a')", "range(5)|length",
    "d[1:2]", "nothing[1:]", "d[nums]", "d[1, 2]", "{(1, 2): 'x'}[1, 2]", "{1: 'a', 1.0: 'b', true: 'c'}", "{[1]: 2}", "name.__class__", "name.__class__.x", "d.__len__", "nums|attr('x')", "name|attr('upper')|string|length > 3", "d|attr('a')", "d|attr('items')()|list", "n.real", "pi.is_integer()", "n.bit_length()", "users[0].name", "users[1]['age']", "users[-1].ok", "users[5].name", "d['a'].b", "nums[none]", "nums[0:n]", "nums[neg:]", "name[none:2]",
)

# string methods
SNIPPETS += exprs(
    "text.upper()", "text.lower()", "'hello world'.title()", "\"they're bill's\".title()", "'hELLO'.capitalize()", "'aBc'.swapcase()", "uni.upper()", "uni.lower()", "uni.title()", "uni.capitalize()", "'ß'.casefold()", "'ﬁ'.upper()", "'ŉ'.capitalize()", "'İ'.lower()", "'ΑΣ Σ'.lower()",
    "'  a b '.strip()", "'  a '.lstrip() ~ '|'", "'  a '.rstrip() ~ '|'", "'xxaxx'.strip('x')", "'abcba'.strip('ab')", "'abc'.lstrip('ab')", "'abc'.rstrip('bc')", "'日a日'.strip('日')", "'\\u00a0a\\u2003'.strip()", "' a '.strip(none)", "'a'.strip(1)",
    "'a,b,c'.split(',')", "'a,b,c'.split(',', 1)", "'a,b,c'.split(',', maxsplit=1)", "'a,b,c'.split(sep=',')", "'a,b,c'.rsplit(',', 1)", "' a  b c '.split()", "' a  b c '.split(none, 1)", "' a  b c '.rsplit(none, 1)", "' a  b c '.rsplit()", "''.split()", "''.split(',')", "'abc'.split('')", "'a--b'.split('--')[-1]", "'a b c '.rsplit(none, 2)", "'aXbXc'.rsplit('X')",
    "lines.splitlines()", "lines.splitlines(true)", "'a\\u2028b'.splitlines()", "''.splitlines()", "'a\\n'.splitlines()", "text.startswith('Hell')", "text.startswith(('x', 'Hello'))", "text.endswith('ld')", "text.startswith('World', 7)", "text.startswith('ello', 1, 5)", "text.endswith('Hello', 0, 5)", "text.startswith(1)", "text.startswith(['a'])", "''.startswith('')", "'a'.startswith('', 2)",
    "text.replace('l', 'L')", "text.replace('l', 'L', 1)", "'abc'.replace('', '-')", "'abc'.replace('', '-', 2)", "'aaa'.replace('aa', 'b')", "text.find('o')", "text.find('o', 5)", "text.find('z')", "text.rfind('o')", "text.index('W')", "text.index('z')", "text.rindex('o')", "text.count('l')", "text.count('')", "text.count('l', 5)", "uni.find('日')", "'abc'.find('', 3)", "'abc'.find('', 4)", "text.find('l', -3)", "text.find('H', -100)",
    "'a'.join(['x', 'y'])", "', '.join(d)", "''.join([1])", "'-'.join('abc')", "'{} {}'.format(1, 'a')", "'{0} {1} {0}'.format('a', 'b')", "'{x}-{y}'.format(x=1, y=2)", "'{:>5}|{:<5}|{:^5}'.format('a', 'b', 'c')", "'{:05d}'.format(42)", "'{:.2f}'.format(3.14159)", "'{:,}'.format(1234567)", "'{:x} {:X} {:o} {:b} {:#x}'.format(255, 255, 8, 5, 255)", "'{:e}'.format(12345.678)", "'{:g}'.format(0.00001)", "'{:%}'.format(0.25)", "'{:.1%}'.format(0.256)", "'{:+d} {: d}'.format(5, 5)", "'{!r}'.format('a')", "'{0.x}'.format(nested)", "'{0[a]}'.format(d)", "'{0[0]}'.format(nums)", "'{{}}'.format(1)", "'{'.format(1)", "'{}'.format()", "'{:>{w}}'.format('a', w=4)", "'{:*^9}'.format('mid')", "'{:10.3f}|'.format(2.0)", "'{:.3}'.format('abcdef')", "'{:.3}'.format(3.14159)", "'{}'.format(none)", "'{:5}'.format(true)", "'{a}'.format_map({'a': 1})", "'{:d}'.format('a')", "'{:,.2f}'.format(1234567.891)", "'{:08.3f}'.format(-3.14159)", "'{:s}'.format('x')", "'{:_}'.format(1234567)", "'{:c}'.format(65)", "'{:<5}|'.format(3)",
    "'5'.zfill(3)", "'-5'.zfill(4)", "'a'.ljust(3) ~ '|'", "'a'.rjust(3, '*')", "'ab'.center(5) ~ '|'", "'abc'.center(6, '*')", "'a'.center(4, '*')", "'a\\tb'.expandtabs(4)", "'abc'.isalpha()", "'ab1'.isalpha()", "'12'.isdigit()", "'²'.isdigit()", "'²'.isdecimal()", "'½'.isnumeric()", "'a1'.isalnum()", "' \\n'.isspace()", "''.isspace()", "'AB'.isupper()", "'ab1'.islower()", "'12'.isupper()", "'Hello World'.istitle()", "'abc'.isidentifier()", "'1a'.isidentifier()", "'é'.isascii()", "'a\\n'.isprintable()", "'prefix-x'.removeprefix('prefix-')", "'x.txt'.removesuffix('.txt')", "'abc'.removeprefix('z')", "'a=b=c'.partition('=')", "'a=b=c'.rpartition('=')", "'abc'.partition('=')", "'abc'.rpartition('=')", "'abc'.nope()", "'abc'.upper(1)", "'%s is %d' % ('x', 5)", "'%s' % 'a'", "'%s' % nums", "'%5s|%-5s|' % ('a', 'b')", "'%05d' % 42", "'%.2f' % pi", "'%x' % 255", "'%%' % ()", "'%(a)s' % d", "'%r' % 'a'", "'%s %s' % 'a'", "'%d' % 'a'", "'a' % 1", "'%e' % 12345.6", "'%g' % 1e10", "'%+d' % 5", "'%c' % 65", "'%s' % x", "'%i' % 3.9", "'%.3s' % 'abcdef'", "'%#x' % 255", "'%*d' % (5, 42)", "'%s' % (nums,)", "'%s' % d",
)

# filters
SNIPPETS += exprs(
    "name|upper", "n|upper", "nothing|upper", "text|lower", "text|title", "'foo-bar (baz) [x] {y} <z>'|title", "'aBC'|capitalize", "' x '|trim", "'xax'|trim('x')", "nothing|trim", "n|string|length", "text|length", "d|length", "n|length", "none|length", "text|count", "x|default('d')", "x|d('d')", "''|default('d')", "''|default('d', true)", "none|default('d')", "none|default('d', boolean=true)", "x|default", "d.zz|default('q')", "x.y|default('q')", "0|default(1, true)",
    "nums|join(',')", "nums|join", "users|join(', ', attribute='name')", "users|join(', ', 'name')", "d|join('-')", "'abc'|join('.')", "none|join", "x|join", "[none, true, 1.5]|join(' ')", "nums|first", "nums|last", "empty|first", "empty|last", "empty|first is defined", "text|first", "text|last", "d|first", "d|last", "d.items()|last", "nums|map('string')|last", "none|first", "x|first", "x|last",
    "text|replace('l', 'L')", "text|replace('l', 'L', 1)", "n|replace('7', '8')", "text|replace(old='o', new='0')", "none|replace('N', 'n')", "d|list", "text|list", "nums|list", "none|list", "nums|map('string')|list", "nums|map('string')|join", "users|map(attribute='name')|list", "users|map(attribute='ok', default='?')|list", "users|map(attribute='zz')|list", "words|map('upper')|list", "words|map('replace', 'a', 'A')|list", "none|map('upper')|list", "nums|map|list", "nums|map('nope')|list", "[[1,2],[3]]|map('first')|list", "[[1,2],[3]]|map(attribute=0)|list", "[{'a':{'b':1}}]|map(attribute='a.b')|list", "['a.b']|map('split', '.')|list", "users|map(attribute='age')|sum", "nums|map('string') is iterable", "(nums|map('string')) and 1", "empty|select and 'truthy'",
    "nums|select('odd')|list", "nums|reject('odd')|list", "nums|select('gt', 1)|list", "nums|select('>', 1)|list", "mixed|select|list", "mixed|reject|list", "mixed|select('string')|list", "mixed|select('mapping')|list", "users|selectattr('ok')|map(attribute='name')|list", "users|rejectattr('ok')|map(attribute='name')|list", "users|selectattr('age', 'equalto', 30)|map(attribute='name')|list", "users|selectattr('age', 'in', [25])|list|length", "users|selectattr('ok', 'defined')|list|length", "users|selectattr('name', '==', 'Ann')|first", "users|selectattr|list", "users|selectattr('age', 'nope')|list", "none|selectattr('a')|list", "x|selectattr('a')|list", "5|select|list", "nums|select('divisibleby', 3)|list",
    "nums|sort", "nums|sort(reverse=true)", "words|sort", "words|sort(case_sensitive=true)", "words|sort(true)", "users|sort(attribute='age')|map(attribute='name')|list", "users|sort(attribute='age,name')|map(attribute='name')|list", "users|sort(attribute='age', reverse=true)|map(attribute='name')|list", "mixed|sort", "d|sort", "none|sort", "'bca'|sort", "words|unique|list", "words|unique(true)|list", "[1, 1.0, true, 2]|unique|list", "users|unique(attribute='city')|map(attribute='name')|list", "[[1]]|unique|list", "nums|reverse|list", "text|reverse", "nums|reverse|first", "d|reverse|list", "none|reverse", "x|reverse|list", "range(3)|reverse|list", "nums|map('string')|reverse", "(nums|reverse)[0]",
    "nums|sum", "empty|sum", "nums|sum(start=10)", "users|sum(attribute='age')", "[[1],[2]]|sum(start=[])", "words|sum", "floats|sum", "nums|min", "nums|max", "empty|min", "words|min", "words|max", "words|max(case_sensitive=true)", "users|min(attribute='age')", "users|max(attribute='age')", "mixed|max", "neg|abs", "-2.5|abs", "'a'|abs", "'42'|int", "'42.7'|int", "'abc'|int", "'abc'|int(-1)", "'0x1f'|int(base=16)", "'ff'|int(0, 16)", "'0b11'|int(0, 2)", "3.9|int", "-3.9|int", "true|int", "none|int", "none|int(5)", "' 12 '|int", "'1_000'|int", "'1e3'|int", "x|int", "'3.5'|float", "'abc'|float", "'abc'|float(1.5)", "7|float", "none|float", "'inf'|float", "'-1e5'|float", "'nan'|float", "x|float",
    "42.55|round", "42.55|round(1)", "2.5|round", "3.5|round", "2.675|round(2)", "42.55|round(1, 'floor')", "42.51|round(1, 'ceil')", "7|round", "1234|round(-2)", "1250|round(-2)", "1234.5|round(-2)", "'a'|round", "1.5|round(method='x')", "-2.5|round", "0.5|round|int", "d|items|list", "x|items|list", "none|items|list", "d|dictsort", "d|dictsort(true)", "d|dictsort(by='value')", "d|dictsort(reverse=true)", "d|dictsort(false, 'value', true)", "none|dictsort", "x|dictsort", "d|dictsort(by='zz')",
    "lines|indent", "lines|indent(2)", "lines|indent(2, true)", "lines|indent(first=true, blank=true)", "lines|indent('> ')", "'a'|indent", "''|indent", "'a\\n'|indent", "n|indent", "html|escape", "html|e", "html|safe", "html|escape|escape", "html|forceescape", "(html|safe) ~ html", "(html|safe) + html", "html|escape|length", "n|escape", "nums|escape", "'<b>'|safe|escape", "('<b>'|safe) is escaped", "[('a'|safe)]", "('a'|safe)|upper is escaped", "('<'|safe)|string is escaped", "range(7)|batch(3)|list", "range(7)|batch(3, 'x')|list", "range(7)|slice(3)|list", "range(7)|slice(3, 'x')|list", "range(3)|slice(5)|list", "empty|batch(2)|list", "range(3)|slice(0)|list", "users|groupby('city')", "users|groupby('city')|map('first')|list", "users|groupby('age')|map(attribute='grouper')|list", "(users|groupby('city'))[0].list|length", "users|groupby('ok', default=false)|length", "users|groupby('city', case_sensitive=true)|map(attribute=0)|list", "users|groupby('ok')",
)
SNIPPETS += exprs(
    "d|tojson", "mixed|tojson", "nested|tojson(indent=2)", "d|tojson(sort_keys=true)", "d|tojson(separators=(',', ':'))", "uni|tojson", "uni|tojson(ensure_ascii=true)", "html|tojson", "quotes|tojson", "none|tojson", "x|tojson", "floats|tojson", "[]|tojson(indent=2)", "{}|tojson(indent=2)", "[[], {}]|tojson(indent=4)", "{1: 2, none: 3, true: 4, 1.5: 5}|tojson", "(1, 2)|tojson", "range(3)|tojson", "d.items()|tojson", "nums|map('string')|tojson", "d|tojson(indent='--')", "d|tojson(indent=0)", "d|tojson(false, 2)", "d|tojson(foo=1)", "{'b': 1, 'a': {'d': 1, 'c': 2}}|tojson(sort_keys=true, indent=1)", "'inf'|float|tojson", "{(1,): 2}|tojson", "d|tojson(indent=2, separators=(', ', ' : '))", "d|tojson(indent=none)", "'\\x7f\\x1f\\u2028'|tojson", "'\\x7f'|tojson(true)",
    "text|truncate(9)", "text|truncate(5, true)", "'foo bar baz qux'|truncate(9)", "'foo bar baz qux'|truncate(9, True)", "'foo bar baz qux'|truncate(11)", "'foo bar baz qux'|truncate(11, False, '...', 0)", "text|truncate(2)", "text|truncate(6, end='!', leeway=0)", "uni|truncate(5, true, '', 0)", "'a b_c d-e'|wordcount", "''|wordcount", "'%s-%s'|format(1, 2)", "'%(a)s'|format(a=1)", "'%s'|format(1, a=2)", "'a b/c?d=é&~'|urlencode", "{'a b': 'c/d', 'e': 1}|urlencode", "[('a', 1), ('b', 2)]|urlencode", "n|urlencode", "{'class': 'a b', 'id': none, 'x': 1, 'y': '<'}|xmlattr", "{'a': 1}|xmlattr(false)", "{'a b': 1}|xmlattr", "'<p>a <b>b</b></p>  c &amp; d'|striptags", "'<!-- x -->y'|striptags", "'ab'|center(6) ~ '|'", "1|filesizeformat", "100|filesizeformat", "1000|filesizeformat", "1234567|filesizeformat", "1048576|filesizeformat(true)", "1023|filesizeformat(binary=true)", "name|nope", "name|upper|lower|title", "-3|abs", "1 + 2|string|length", "'a,b'.split(',')|map('upper')|join('|')", "name|upper()", "name|replace('W')", "text|wordwrap(5)", "'the quick brown fox'|wordwrap(9)", "'averyverylongword x'|wordwrap(5)", "'averyverylongword x'|wordwrap(5, false)", "'a b c d'|wordwrap(3, wrapstring='|')", "'para one\\n\\npara two'|wordwrap(4)", "'well-known fact'|wordwrap(6)", "nums|string", "d|string|length", "n|string + 'a'", "nums|attr('append')", "(1,2)|list", "{'a':1}|list", "text|e|upper", "text is string and text|length > 3", "nums|length == 3",
)

# tests
SNIPPETS += exprs(
    "x is defined", "n is defined", "x is undefined", "x is not defined", "d.zz is defined", "d.a is defined", "nothing is none", "x is none", "n is none", "name is string", "n is string", "n is number", "pi is number", "yes is number", "n is integer", "yes is integer", "pi is float", "n is float", "yes is boolean", "n is boolean", "yes is true", "1 is true", "no is false", "0 is false", "d is mapping", "nums is mapping", "nums is iterable", "name is iterable", "n is iterable", "nums is sequence", "name is sequence", "d is sequence", "n is sequence", "range(3) is sequence", "d.items() is sequence", "d.items() is iterable", "n is odd", "n is even", "8 is even", "n is divisibleby 7", "n is divisibleby(2)", "n is eq 7", "n is equalto 7", "n is ne 7", "n is lt 8", "n is gt 8", "n is ge 7", "n is le 6", "n is greaterthan 1", "n is lessthan 1", "n is sameas 7", "none is sameas none", "nums is sameas nums", "[1] is sameas [1]", "yes is sameas true", "1 is sameas true", "n is in [7]", "n is not in [7]", "'a' is in 'abc'", "name is lower", "'abc' is lower", "'ABC' is upper", "name is callable", "range is callable", "name.upper is callable", "'upper' is filter", "'nope' is filter", "'odd' is test", "n is nope", "n is defined and n is number", "n is not none and 1", "not n is none", "n is number is string", "x is defined or 'a'", "n is string or n is number", "n == 7 is true", "n is divisibleby 2 + 1", "'a' is odd", "none is odd", "2.0 is even", "html|safe is string", "n is defined == true", "(1,) is sequence", "loop is defined", "users[0].ok is true", "users[2].ok is true", "name is escaped", "-1 is odd", "d is not mapping", "nums is string", "n is number and not n is float", "x is iterable", "n is in(nums)",
)

# statements
SNIPPETS += [
    "{% if n > 5 %}a{% elif n > 3 %}b{% else %}c{% endif %}", "{% if n > 9 %}a{% elif n > 3 %}b{% else %}c{% endif %}", "{% if no %}a{% elif no %}b{% else %}c{% endif %}", "{% if x %}a{% endif %}b", "{% if nums, %}t{% endif %}", "{% if yes %}{% set q = 1 %}{% endif %}{{ q }}", "{% if no %}{% set n = 1 %}{% endif %}{{ n }}",
    "{% for i in nums %}{{ i }}{% if not loop.last %},{% endif %}{% endfor %}", "{% for i in nums %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }};{% endfor %}", "{% for i in nums %}{{ loop.previtem }}<{{ i }}>{{ loop.nextitem }};{% endfor %}", "{% for i in nums %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }}{% endfor %}", "{% for i in nums %}{{ loop.cycle('a', 'b') }}{% endfor %}", "{% for i in [1,1,2] %}{{ loop.changed(i) }}{% endfor %}", "{% for i in empty %}x{% else %}none{% endfor %}", "{% for i in nums %}x{% else %}none{% endfor %}", "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k in d %}{{ k }}{% endfor %}", "{% for k, v in d|items %}{{ k }}={{ v }};{% endfor %}", "{% for a, b in [(1, 2), [3, 4], 'xy'] %}{{ a }}{{ b }};{% endfor %}", "{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "{% for a, b in nums %}{% endfor %}", "{% for a, b in [(1, 2, 3)] %}{% endfor %}", "{% for i in nums if i > 1 %}{{ i }}{{ loop.index }}/{{ loop.length }}{{ loop.last }};{% endfor %}", "{% for i in nums if i > 9 %}x{% else %}none{% endfor %}", "{% for i in 'abc' %}{{ i }}-{% endfor %}", "{% for i in none %}{% endfor %}", "{% for i in x %}a{% else %}b{% endfor %}", "{% for i in 5 %}{% endfor %}", "{% for i in nums|map('string') %}{{ i }}{{ loop.length }}{{ loop.last }}{% endfor %}", "{% for i in 1, 2, 3 %}{{ i }}{% endfor %}", "{% for i in nums %}{% for j in nums %}{{ loop.index }}{% endfor %}{{ loop.index }};{% endfor %}", "{% for i in nums %}{% set outer = loop %}{% for j in nums %}{{ outer.index }}{{ loop.index }} {% endfor %}{% endfor %}", "{% for i in nums recursive %}{{ i }}{% endfor %}", "{% for t in tree recursive %}{{ t.v }}@{{ loop.depth }}{{ loop.depth0 }}[{{ loop(t.c) }}]{% endfor %}", "{% for i in nums %}{{ loop([1]) }}{% endfor %}", "{% for i in nums %}{% endfor %}{{ i }}{{ loop }}", "{% for i in nums %}{% set z = i %}{% endfor %}{{ z }}", "{% set z = 0 %}{% for i in nums %}{{ z }}{% set z = i %}{{ z }};{% endfor %}{{ z }}", "{% for n in nums %}{{ n }}{% endfor %}{{ n }}", "{% for i in nums %}{% if i == 1 %}{% break %}{% endif %}{{ i }}{% endfor %}", "{% for i in nums %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% endfor %}", "{% for i in nums %}{% continue %}{% else %}e{% endfor %}", "{% for i in nums %}{% break %}{% else %}e{% endfor %}", "{% for i in nums %}{{ i }}{% break %}{% endfor %}", "{% break %}", "{% for i in nums %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}", "{% for loop in nums %}{% endfor %}", "{% for i in range(3) %}{{ loop }}{% endfor %}", "{% for i in nums if loop.index %}{{ i }}{% endfor %}", "{% for i in nums %}{{ loop.foo }}{% endfor %}", "{% for i in nums %}{{ loop.foo.bar }}{% endfor %}", "{% for u in users if u.ok is defined %}{{ u.name }}{% endfor %}", "{% for u in users|sort(attribute='age') %}{{ u.name }}{% endfor %}", "{% for g, us in users|groupby('city') %}{{ g }}:{{ us|map(attribute='name')|join('+') }};{% endfor %}", "{% for x in (1, 2) if x == 1 else 3 %}{% endfor %}",
    "{% set a = 1 %}{{ a }}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set (a, b) = (1, 2) %}{{ a }}{{ b }}", "{% set a = 1, 2 %}{{ a }}", "{% set a = b = 1 %}", "{% set a %}x{{ n }}y{% endset %}{{ a }}", "{% set a | upper %}x{{ name }}y{% endset %}{{ a }}", "{% set a | replace('x', 'z') | upper %}x{{ name }}y{% endset %}{{ a }}", "{% set a %}{% set b = 1 %}{{ b }}{% endset %}{{ a }}{{ b }}", "{% set ns = namespace(a=1) %}{% for i in nums %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}", "{% set ns = namespace() %}{% set ns.x = 5 %}{{ ns.x }}{{ ns.y }}", "{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }}", "{% set ns = namespace(a=1) %}{{ ns['a'] }}", "{% set ns = namespace(a=1) %}{{ ns }}", "{% set d.x = 1 %}", "{% set ns = 5 %}{% set ns.x = 1 %}", "{% set ns = namespace() %}{% set ns.a, ns.b = 1, 2 %}{{ ns.a }}{{ ns.b }}", "{% set ns = namespace() %}{% set ns.a %}body{% endset %}{{ ns.a }}", "{% set 1 = 2 %}", "{% set 'a' = 2 %}", "{% set none = 2 %}", "{% set a.b.c = 1 %}", "{% set a['b'] = 1 %}", "{% set n = n + 1 %}{{ n }}", "{% set a = 1 if no else 2 %}{{ a }}", "{% set x = x %}{{ x is defined }}", "{% set a = nums %}{% set a = a + [4] %}{{ a }}{{ nums }}",
    "{% macro m(a, b=2) %}{{ a }}-{{ b }}{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ m(b=5, a=4) }} {{ m() }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=2) }}", "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}", "{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}", "{% macro m(a=n) %}{{ a }}{% endmacro %}{% set n = 9 %}{{ m() }}", "{% macro m() %}{{ n }}{% endmacro %}{% set n = 9 %}{{ m() }}", "{% macro m() %}{% set q = 1 %}{{ q }}{% endmacro %}{{ m() }}{{ q }}", "{% macro m(x) %}{% if x > 0 %}{{ x }}{{ m(x - 1) }}{% endif %}{% endmacro %}{{ m(3) }}", "{% macro m(x) %}[{{ caller() }}]{% endmacro %}{% call m(1) %}body{{ n }}{% endcall %}", "{% macro m() %}{{ caller(1, 2) }}{% endmacro %}{% call(a, b) m() %}{{ a }}+{{ b }}{% endcall %}", "{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}", "{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}", "{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}", "{% macro m() %}x{% endmacro %}{{ m }}", "{% macro m(a, b) %}x{% endmacro %}{{ m.name }}{{ m.arguments }}", "{% macro m(a, a) %}x{% endmacro %}", "{% macro m(a=1, b) %}x{% endmacro %}", "{% macro m() %} a {% endmacro %}{{ m()|trim }}{{ m() ~ 'x' }}", "{% macro m(a) %}{{ a is defined }}{{ a }}{% endmacro %}{{ m() }}", "{% macro m(a) %}{{ a.b }}{% endmacro %}{{ m() }}", "{% macro a() %}A{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}", "{{ m() }}{% macro m() %}x{% endmacro %}", "{% macro m(*a) %}{% endmacro %}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(*[1]) }}{{ m(**{'a': 2}) }}", "{% macro m(a, b, c) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1, *[2, 3]) }}{{ m(1, c=3, *[2]) }}", "{% for i in nums %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}", "{% if yes %}{% macro m() %}x{% endmacro %}{% endif %}{{ m() }}", "{% macro m() %}{% for i in nums %}{{ i }}{% endfor %}{% endmacro %}{{ m()|length }}", "{% macro m(loop) %}{{ loop }}{% endmacro %}{{ m(1) }}", "{% macro m(x) %}{{ x|tojson }}{% endmacro %}{{ m({'a': [1]}) }}",
    "{% filter upper %}a{{ name }}{% endfilter %}", "{% filter replace('a', 'b')|upper %}xax{% endfilter %}", "{% filter trim %}  a {% endfilter %}|", "{% with %}{% set a = 1 %}{{ a }}{% endwith %}{{ a }}", "{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a }}", "{% with a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% endwith %}{% endwith %}", "{% with n = n + 1 %}{{ n }}{% endwith %}{{ n }}", "{% print n %}", "{% print n, name %}", "{% generation %}a{{ n }}{% endgeneration %}b", "{% for i in nums %}{% generation %}{{ i }}{{ loop.index }}{% set q = 1 %}{% endgeneration %}{{ q }}{% endfor %}", "  {% generation %}\n  a\n  {% endgeneration %}\nb", "{% for i in nums %}{% generation %}{% break %}{% endgeneration %}{% endfor %}", "{% for i in nums %}{% set a %}{% break %}{% endset %}{% endfor %}x", "{% block a %}x{{ n }}{% endblock %}", "{% set q = 5 %}{% block a %}{{ q }}{% endblock a %}", "{% for i in nums %}{% block b scoped %}{{ i }}{% endblock %}{% endfor %}", "{% for i in nums %}{% block b %}{{ i }}{% endblock %}{% endfor %}", "{% autoescape false %}{{ html }}{% endautoescape %}", "{% include 'a' %}", "{% import 'a' as b %}", "{% from 'a' import b %}", "{% extends 'a' %}", "{% nope %}", "{% endif %}", "{% if yes %}", "{% for i in nums %}", "{% if yes %}{% endfor %}", "{% else %}", "{% %}", "{{ }}", "{{ n", "{% if", "{# x", "{% raw %}x", "{{ n }", "{{ (n }}", "{{ n) }}", "{{ [n) }}", "{{ n $ }}", "{{ n n }}", "{{ 'a' n }}", "{{ n! }}", "{% do nums %}",
    "{% if no %}{{ n|nope }}{% endif %}ok", "{% if no %}{{ n is nope }}{% endif %}ok", "{{ 1 if no else 2 }}{{ n|nope if no else 'ok' }}", "{% for i in empty %}{{ n|nope }}{% endfor %}ok", "{% if no %}{% for i in empty %}{{ n|nope }}{% endfor %}{% endif %}ok", "{% macro m() %}{{ n|nope }}{% endmacro %}ok", "{{ raise_exception('stop: ' ~ n) }}", "{% if no %}{{ raise_exception('x') }}{% endif %}ok", "{{ raise_exception() }}", "{{ strftime_now('%Y-%m-%d') }}", "{{ strftime_now('%d %b %Y %H:%M:%S %A %B %j %p %I %y %%') }}", "{{ strftime_now('%-d/%-m') }}", "{{ strftime_now('%F %T') }}", "{{ strftime_now('%z%Z|%f') }}", "{{ strftime_now('%a, %e %b; é') }}", "{{ strftime_now is defined }}{{ raise_exception is callable }}",
    "{{ dict(a=1, b=2) }}", "{{ dict([('a', 1)]) }}", "{{ dict({'a': 1}, b=2) }}", "{{ dict(1) }}", "{% set j = joiner() %}{{ j() }}a{{ j() }}b{{ j() }}", "{% set j = joiner('; ') %}{% for i in nums %}{{ j() }}{{ i }}{% endfor %}", "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.reset() }}{{ c.current }}", "{{ cycler() }}", "{{ range(3)|join }}", "{{ namespace(a=1).a }}", "{{ messages }}{{ tools }}{{ documents }}{{ add_generation_prompt }}", "{{ zip is defined }}", "{{ len(nums) }}", "{{ nums|length() }}", "{{ n if n is defined else 'x' }}", "{{ [1,2,3][0] }}{{ {'a':1}.a }}{{ 'abc'[1] }}{{ 'abc'.upper()[0] }}", "{{ ('a' ~ 'b')|upper }}", "{{ 'a' ~ 'b'|upper }}", "{{ not n|length is defined }}", "{{ nums|first|string ~ 'x' }}", "{{ name.split('o')[0].lower()|upper }}", "{{ (nums + [4])|length }}", "{{ {'a': nums}['a'][0] }}", "{{ {'role': 'user'} in [{'role': 'user'}] }}", "{{ d.items()|length }}", "{{ (d.keys()|list)[0] }}", "{{ d.keys()[0] }}", "{{ d.keys() == d.keys() }}", "{{ 'b' in d.keys() }}", "{{ ('b', 1) in d.items() }}", "{{ d.values()|sum }}", "{{ 5.0 // 2 }}", "{{ (1 == 1)|string }}", "{{ true|tojson }}", "{{ none|string }}", "{% set m = {'a': 1} %}{{ m.a }}{{ m.b is defined }}", "{% set g = nums|map('string') %}{{ g|join }}{{ g|join }}|", "{% set g = nums|select %}{{ g|first }}{{ g|list }}", "{{ nums|map('string')|length }}", "{{ (nums|map('string'))[0] }}", "{% if nums|select('gt', 99) %}truthy{% endif %}", "{{ nums|reverse|length }}", "{% set s = 'a' %}{% set s = s ~ 'b' %}{{ s }}", "{{ foo.bar.baz }}", "{{ foo }}", "{{ foo is defined and foo.bar }}", "{{ foo.bar is defined }}", "{{ d.foo.bar is defined }}", "{{ d.foo is defined and d.foo.bar }}", "{{ users|map(attribute='name')|map('lower')|sort|join(' ') }}", "{% for m in users %}{{ '<|' + m['name'] + '|>' + m.city | trim + '\n' }}{% endfor %}", "{{ (text|lower).split(', ')|map('capitalize')|list }}", "{{- 'a' -}}  {{- 'b' -}}", "{{ 'a' if n == 7 and name == 'World' else 'b' }}", "{{ 'yes' if 'W' in name and not (n < 3 or n > 10) }}", "{{ n }}{{ n }}{{- n }}", "{{ \"\\\"\" }}{{ '\\'' }}", "{{ name[0]|lower ~ name[1:] }}", "{% set x = namespace(found=false) %}{% for u in users %}{% if u.name == 'bob' %}{% set x.found = true %}{% endif %}{% endfor %}{{ x.found }}", "{{ users|selectattr('name', 'equalto', 'bob')|map(attribute='age')|first }}", "{{ users | tojson(indent=4) | indent(2) }}", "{{ ''.join(['a', 'b'])|upper }}", "{{ d|items|list|first|first }}", "{% for a in [1,2,3,4] %}{{ loop.index is divisibleby 2 }}{{ loop.first and not loop.last }}{% endfor %}", "{{ 1 is number and 'a' is string }}", "{{ [] is defined and [] is iterable and [] is not string }}", "{{ nums[::2] + nums[1::2] }}", "{{ nums[-2:] }}{{ nums[:-5] }}{{ nums[5:] }}", "{{ 'x' if messages }}{{ 'y' if not messages }}",
]


# found by comparing random snippets
SNIPPETS += exprs(
    "range(10)[::2]", "range(10)[2:5]", "range(10)[::-3]|list", "range(10)[20:]", "n is defined(1)", "n is none(1)", "n is odd 3", "n is eq", "5|batch(2) and 1", "5|slice(2) and 1", "5|batch(2)|list", "n|unique and 1",
    "d|truncate(5)", "nums|truncate(3, leeway=0)", "2.5|round(none)", "7|round(none)", "'' % nums", "'' % n", "'' % x", "'%s' is odd", "d.get(d.keys())", "{d.keys(): 1}", "[1, 2]|escape|list", "(' a  b c ').split(none, 1)", "' a  b c '.rsplit(none, 1)", "'\\x7f\\x80'|tojson(true)",
    "'<p>x  <b>y</b></p>'|striptags|upper",
)


# found by comparing random templates
SNIPPETS += [
    "{% filter length %}abc{% endfilter %}", "{% filter length|string %}abc{% endfilter %}", "{% filter upper|list %}a{% endfilter %}",
    "{% macro m() %}{{ kwargs }}{% endmacro %}{% call m() %}x{% endcall %}", "{% macro m() %}{{ caller.name }}{{ caller }}{{ caller() }}{% endmacro %}{% call m() %}x{% endcall %}",
    "{% set ns = namespace(_a=1) %}", "{% set ns = namespace() %}{% set ns._a = 1 %}{{ ns._a }}", "{% set ns = namespace(a_=1) %}{{ ns.a_ }}",
]


# Random snippets: small expressions put together from the values, filters, methods and operators above.
ATOMS = ["n", "neg", "pi", "yes", "no", "nothing", "empty", "text", "uni", "lines", "nums", "floats", "mixed", "words", "d",
         "nested", "users", "html", "quotes", "undef", "0", "1", "-1", "2", "3.5", "'a'", "''", "'l'", "' a b '", "[]", "[1, 2]",
         "(1,)", "()", "{}", "{'a': 1}", "true", "none", "range(4)", "d.items()", "users[0]", "nested.x", "'%s'", "'{}'", "','"]
FILTERS = ["upper", "lower", "title", "capitalize", "trim", "length", "list", "first", "last", "reverse", "sort", "unique",
           "sum", "min", "max", "abs", "int", "float", "string", "round", "items", "dictsort", "tojson", "escape", "safe",
           "wordcount", "join", "join(@)", "default(@)", "default(@, true)", "replace(@, @)", "map('upper')", "map('string')",
           "map(attribute='name')", "map(attribute='a')", "select", "reject", "select('string')", "select('number')",
           "selectattr('ok')", "selectattr('age', 'gt', 26)", "rejectattr('ok')", "sort(reverse=true)", "batch(2)",
           "slice(2)", "indent", "indent(2, true)", "truncate(5)", "truncate(5, true, '', 0)", "round(1)", "round(@)",
           "tojson(indent=2)", "tojson(sort_keys=true)", "format(@)", "attr('name')", "groupby('city')", "urlencode",
           "center(9)", "striptags", "xmlattr", "int(@)", "float(@)", "wordwrap(4)", "filesizeformat", "count", "map('length')",
           "map('first')", "map('int')", "sum(start=@)", "join(', ', attribute='name')", "max(attribute='age')"]
METHODS = ["upper()", "lower()", "title()", "strip()", "strip(@)", "lstrip(@)", "rstrip(@)", "split()", "split(@)",
           "split(@, 1)", "rsplit(@, 1)", "splitlines()", "startswith(@)", "endswith(@)", "replace(@, @)", "replace(@, @, 1)",
           "find(@)", "rfind(@)", "index(@)", "count(@)", "join(@)", "format(@)", "format(@, @)", "items()", "keys()",
           "values()", "get(@)", "get(@, @)", "copy()", "isdigit()", "isalpha()", "isupper()", "islower()", "istitle()",
           "zfill(4)", "center(5)", "ljust(@)", "partition(@)", "rpartition(@)", "removeprefix(@)", "removesuffix(@)",
           "capitalize()", "swapcase()", "casefold()", "isspace()", "isalnum()", "name", "a", "x", "foo", "append(@)", "isidentifier()"]
TESTS = ["defined", "undefined", "none", "string", "number", "mapping", "iterable", "sequence", "boolean", "integer", "float",
         "true", "false", "odd", "even", "lower", "upper", "callable", "in(@)", "eq(@)", "sameas(@)", "divisibleby(@)", "lt(@)", "escaped"]
OPERATORS = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]


def random_expression(rng, depth):
    def fill(s):
        while "@" in s:
            s = s.replace("@", random_expression(rng, 0 if depth < 2 else depth - 2), 1)
        return s

    if depth <= 0:
        return rng.choice(ATOMS)
    inner = random_expression(rng, depth - 1)
    kind = rng.randrange(12)
    if kind < 4:
        return f"({inner})|{fill(rng.choice(FILTERS))}" if rng.random() < 0.3 else f"{inner}|{fill(rng.choice(FILTERS))}"
    if kind < 6:
        return f"({inner}).{fill(rng.choice(METHODS))}"
    if kind < 7:
        return f"({inner}) is {rng.choice(['', 'not '])}{fill(rng.choice(TESTS))}"
    if kind < 9:
        other = random_expression(rng, depth - 1)
        return f"({inner}) {rng.choice(OPERATORS)} ({other})" if rng.random() < 0.7 else f"{inner} {rng.choice(OPERATORS)} {other}"
    if kind == 9:
        index = rng.choice(["0", "-1", "1", "'a'", "'name'", "1:", ":2", "::-1", "-2:", "::2", "5", random_expression(rng, 0)])
        return f"({inner})[{index}]"
    if kind == 10:
        return f"({inner}) if {random_expression(rng, depth - 1)} else ({random_expression(rng, 0)})"
    return rng.choice([f"not {inner}", f"-({inner})", f"[{inner}]", f"({inner}, 1)", "{'k': " + inner + "}"])


def random_snippet(rng):
    e = random_expression(rng, rng.randrange(1, 5))
    kind = rng.randrange(10)
    if kind == 0:
        return "{% for v in " + e + " %}{{ loop.index }}{{ v }}{{ '' if loop.last else ',' }}{% else %}none{% endfor %}"
    if kind == 1:
        return "{% if " + e + " %}t{% else %}f{% endif %}"
    if kind == 2:
        return "{% set v = " + e + " %}{{ v }}|{{ v is defined }}|{{ v }}"
    return "{{ " + e + " }}"
