#!/usr/bin/env python3
"""Renames types, modules and functions of a checkout by the tables beside this file.

    apply.py CHECKOUT [--dry] [--no-fmt]

The program reads every Rust file as tokens, builds the module tree of every target, and resolves each
path by the rules of the language (imports, globs, re-exports, `super`, enclosing blocks). A name is
replaced only where it resolves to the renamed item. Tables (lines: `#` begins a comment):

    types.txt    FILE OldName NewName
    modules.txt  FILE-or-FOLDER new_name            the module's file, or its folder if that has mod.rs
    fns.txt      FILE [Type::]old new [files...]    functions; files: where `.old(` is a method call of it
    texts.txt    GLOB<TAB>regex<TAB>replacement     plain replacements, last
"""
import fnmatch, os, re, subprocess, sys, tomllib, collections

HERE = os.path.dirname(os.path.abspath(__file__))
TOKEN = re.compile(r'''
 (?P<com>//[^\n]*|/\*.*?\*/)
|(?P<str>(?:b|c|br|cr|r)?(?P<h>\#*)"(?:(?<=r")|(?<=r\#")|(?<=r\#\#")|(?<=r\#\#\#"))(?:.*?)"(?P=h)|[bc]?"(?:[^"\\]|\\.)*")
|(?P<chr>b?'(?:[^'\\\n]|\\(?:[^u]|u\{[0-9a-fA-F_]+\}|x[0-9a-fA-F]{2}))')
|(?P<life>'\w+)
|(?P<id>(?:r\#)?[A-Za-z_]\w*)
|(?P<num>\d[\w]*(?:\.\d[\w]*)?)
|(?P<p>::|=>|==|->|[^\s])
''', re.X | re.S)

class Def:
    __slots__ = ('kind', 'name', 'file', 'scope', 'parent', 'variants', 'alias', 'home', 'assoc')
    def __init__(self, kind, name, file, parent=None, home=None):
        self.kind, self.name, self.file, self.parent, self.home = kind, name, file, parent, home
        self.scope = None; self.variants = set(); self.alias = None; self.assoc = {}
    ns = property(lambda s: 'V' if s.kind == 'fn' else 'T')

class Scope:
    __slots__ = ('kind', 'parent', 'mod', 'names', 'globs', 'self_path', 'uses')
    def __init__(self, kind, parent, mod):
        self.kind, self.parent, self.mod = kind, parent, mod
        self.names = {}; self.globs = []; self.self_path = None; self.uses = []

class Use:
    __slots__ = ('segs', 'scope', 'busy', 'cache', 'public')
    def __init__(self, segs, scope, public):
        self.segs, self.scope, self.busy, self.cache, self.public = segs, scope, False, {}, public

VARIANT = Def('variant', '?', None)
ITEM = {'struct', 'enum', 'trait', 'type', 'union'}
PATHKEYS = {'with', 'default', 'deserialize_with', 'serialize_with', 'skip_serializing_if', 'remote',
            'try_from', 'into', 'from', 'schema_with', 'crate', 'getter'}

class Tree:
    def __init__(self, root):
        self.root = root
        self.externs = {}
        self.texts = {}
        self.toks = {}
        self.defs = collections.defaultdict(list)    # (file, name) -> defs
        self.mods = collections.defaultdict(list)    # file -> module defs
        self.occ = []                                # (file, scope, [(text, pos)], leaf)
        self.comments = []                           # (file, scope, start, text)
        self.strings = []                            # (file, scope, start, text): paths in attributes
        self.assoc = []                              # (file, impl scope, name, pos)
        self.interesting = set()
        self.edits = collections.defaultdict(dict)
        self.problems = []

    def text(self, f):
        if f not in self.texts:
            with open(os.path.join(self.root, f), encoding='utf-8', newline='') as h:
                self.texts[f] = h.read()
        return self.texts[f]

    def tokens(self, f):
        if f not in self.toks:
            self.toks[f] = [(m.lastgroup if m.lastgroup != 'h' else 'str', m.group(), m.start()) for m in TOKEN.finditer(self.text(f))]
        return self.toks[f]

    def root_module(self, name, f):
        d = Def('mod', name, f); d.scope = Scope('mod', None, d)
        d.home = d
        self.mods[f].append(d)
        self.parse(f, d, os.path.dirname(f))
        return d

    def child_file(self, base, name, attr_path, filedir, inline):
        if attr_path is not None:
            p = os.path.normpath(os.path.join(filedir if not inline else base, attr_path))
            return p if os.path.exists(os.path.join(self.root, p)) else None
        for p in (f'{base}/{name}.rs', f'{base}/{name}/mod.rs'):
            p = os.path.normpath(p)
            if os.path.exists(os.path.join(self.root, p)):
                return p
        return None

    def parse(self, f, module, base):
        """`base`: the folder in which the files of `mod x;` lie."""
        Parser(self, f, self.tokens(f), module, base).run()

class Parser:
    def __init__(self, tree, f, toks, module, base, shift=None):
        self.t, self.f, self.module, self.base = tree, f, module, base
        self.shift = shift or (lambda p: p)
        self.all = toks
        self.k = [t for t in toks if t[0] != 'com']

    def run(self):
        k = self.k; n = len(k); t = self.t; want = t.interesting; f = self.f; shift = self.shift
        scope = self.module.scope
        stack = []          # (scope, base, depth)
        base = self.base
        depth = 0           # of ( and [
        pending = None      # (kind, payload, depth) for the next `{`
        variant_at = None   # in an enum: whether a variant's name is expected
        attr_path = None
        macro = None        # the depth of `stack` inside `macro_rules! name {`
        scopes_at = [(0, scope)]
        i = 0
        while i < n:
            kind, s, pos = k[i]
            if kind == 'p':
                if s == '{':
                    stack.append((scope, base, depth, variant_at, pending))
                    what = pending if pending and pending[2] == depth else None
                    pending = None
                    if what is None and (i > 2 and k[i-2][1] == '!' and k[i-3][1] == 'macro_rules'):
                        macro = len(stack)
                    elif what is None and macro is not None and len(stack) == macro + 1 and k[i-1][1] == '=>':
                        pass    # what the macro makes stands where the macro is used: mostly beside it
                    elif what is None:
                        scope = Scope('block', scope, scope.mod); variant_at = None
                    else:
                        variant_at = None
                        if what[0] == 'mod':
                            d = what[1]; scope = d.scope; base = what[3]
                        elif what[0] == 'enum':
                            scope = Scope('enum', scope, scope.mod); scope.self_path = what[1]; variant_at = depth
                        elif what[0] == 'impl':
                            new = Scope('impl', scope, scope.mod); new.self_path = what[1]; scope = new
                        else:
                            scope = Scope(what[0], scope, scope.mod)
                            if what[0] == 'trait': scope.self_path = what[1]
                    scopes_at.append((shift(pos), scope))
                elif s == '}':
                    if stack:
                        scope, base, depth, variant_at, pending = stack.pop()
                        if macro is not None and len(stack) < macro: macro = None
                        if pending and pending[2] == depth: pending = None
                        scopes_at.append((shift(pos), scope))
                        if variant_at is not None and i + 1 < n and k[i+1][1] != ',' : pass
                elif s in '([':
                    depth += 1
                elif s in ')]':
                    depth -= 1
                elif s == ';':
                    if pending and pending[2] == depth: pending = None
                    attr_path = None
                elif s == '#' and i + 1 < n and k[i+1][1] in ('[', '!'):
                    j = i + 1
                    if k[j][1] == '!': j += 1
                    if j < n and k[j][1] == '[':
                        d = 0; e = j
                        while e < n:
                            if k[e][1] in '([{' and k[e][0] == 'p': d += 1
                            elif k[e][1] in ')]}' and k[e][0] == 'p':
                                d -= 1
                                if d == 0: break
                            e += 1
                        name = k[j+1][1] if j + 1 < n else ''
                        if name == 'path':
                            attr_path = k[j+3][1].strip('"')
                        if name != 'derive':
                            for x in range(j + 1, e):
                                if k[x][0] == 'str' and k[x-1][1] == '=' and k[x-2][1] in PATHKEYS:
                                    t.strings.append((f, scope, shift(k[x][2]) + 1, k[x][1][1:-1]))
                                elif k[x][0] == 'id' and k[x-1][1] not in ('::', '.'):
                                    self.path(x, scope)
                        i = e + 1
                        continue
                i += 1
                continue
            if kind != 'id':
                i += 1
                continue
            prev = k[i-1][1] if i else ''
            if s == 'mod' and i + 2 < n and k[i+1][0] == 'id' and k[i+2][1] in (';', '{'):
                name = k[i+1][1]
                inline = k[i+2][1] == '{'
                d = Def('mod', name.removeprefix('r#'), f, parent=scope.mod)
                d.scope = Scope('mod', None, d); d.home = scope
                self.bind(scope, name, d)
                if name in want: t.occ.append((f, scope, [(name, shift(k[i+1][2]))], d))
                child_base = f'{base}/{name}'
                if inline and attr_path: child_base = os.path.normpath(os.path.join(os.path.dirname(f), attr_path))
                if inline:
                    d.scope.parent = None
                    pending = ('mod', d, depth, child_base)
                else:
                    in_inline = bool(stack)
                    p = t.child_file(base, name.removeprefix('r#'), attr_path, os.path.dirname(f), in_inline)
                    if p is None:
                        pass
                    else:
                        d.file = p
                        t.mods[p].append(d)
                        b = os.path.dirname(p) if os.path.basename(p) == 'mod.rs' or attr_path else child_base
                        t.parse(p, d, b)
                attr_path = None
                i += 2
                continue
            if s == 'use' and prev not in ('+', '.', '::') and i + 1 < n and k[i+1][1] != '<':
                i = self.use(i + 1, scope)
                continue
            if s in ITEM and i + 1 < n and k[i+1][0] == 'id' and scope.kind in ('mod', 'block') and prev not in ('.', '::', '$', "'") and not (s == 'union' and k[i+2][1] not in ('{', '<')):
                name = k[i+1][1]
                d = Def(s, name, f, parent=scope.mod, home=scope)
                t.defs[(f, name)].append(d)
                self.bind(scope, name, d)
                if name in want: t.occ.append((f, scope, [(name, shift(k[i+1][2]))], d))
                if s == 'type':
                    j = i + 2
                    while j < n and k[j][1] not in ('=', ';'): j += 1
                    j += 1
                    if j < n and k[j][0] == 'id':
                        d.alias = (self.segs(j), scope)
                else:
                    pending = (s, [d] if s in ('enum', 'trait') else None, depth)
                i += 2
                continue
            if s == 'type' and scope.kind in ('impl', 'trait') and i + 1 < n and k[i+1][0] == 'id':
                i += 2
                continue
            if s == 'fn' and i + 1 < n and k[i+1][0] == 'id':
                name = k[i+1][1]
                if scope.kind in ('impl', 'trait'):
                    if name in want: t.assoc.append((f, scope, name, shift(k[i+1][2])))
                elif scope.kind in ('mod', 'block'):
                    d = Def('fn', name, f, parent=scope.mod, home=scope)
                    t.defs[(f, name)].append(d)
                    self.bind(scope, name, d)
                    if name in want: t.occ.append((f, scope, [(name, shift(k[i+1][2]))], d))
                pending = ('block', None, depth)
                i += 2
                continue
            if s == 'impl' and scope.kind in ('mod', 'block') and (prev in ('', ';', '}', ']', '{', 'unsafe')):
                pending = ('impl', self.impl(i + 1), depth)
                i += 1
                continue
            if variant_at is not None and depth == variant_at and scope.kind == 'enum':
                if prev in ('{', ',', ']', '}') and not (prev == '}' ):
                    scope.self_path[0].variants.add(s)
                    i += 1
                    continue
            after_dots = prev == '.' and i > 1 and k[i-2][1] == '.' and k[i-2][2] + 1 == k[i-1][2]
            if prev in ('.', '::') and not after_dots and not (prev == '::' and i > 1 and k[i-2][1] == '$crate'):
                i += 1
                continue
            if i + 1 < n and k[i+1][1] == '=' and prev in ('<', ',') and s[:1].isupper():
                i += 1
                continue
            self.path(i, scope)
            i += 1
        # comments, with the scope in which each stands
        if self.f.endswith('.rs') and self.shift.__name__ == '<lambda>' :
            import bisect
            keys = [a for a, _ in scopes_at]
            for c, s, pos in self.all:
                if c == 'com' and ('`' in s or '[' in s):
                    sc = scopes_at[bisect.bisect_right(keys, pos) - 1][1]
                    if s.startswith('//!') : pass
                    t.comments.append((f, sc, pos, s))
            self.fences(scopes_at, keys)

    def fences(self, scopes_at, keys):
        """Code in doc comments: read as a small crate of its own."""
        t = self.t
        block = None
        for c, s, pos in self.all:
            if c != 'com' or not (s.startswith('///') or s.startswith('//!')):
                continue
            body = s[3:]
            if body.strip().startswith('```'):
                if block is None:
                    lang = body.strip()[3:]
                    block = ([], lang.split(',')[0] in ('', 'rust', 'no_run', 'ignore', 'should_panic', 'compile_fail'))
                else:
                    if block[1]: self.fence(block[0])
                    block = None
            elif block is not None:
                block[0].append((body, pos + 3))
    def fence(self, lines):
        text = ''; marks = []
        for b, p in lines:
            if b.lstrip().startswith('# '):
                cut = b.index('# ') + 1
                p += cut; b = b[cut:]
            marks.append((len(text), p)); text += b + '\n'
        import bisect
        starts = [a for a, _ in marks]
        def shift(p):
            a, q = marks[bisect.bisect_right(starts, p) - 1]
            return q + p - a
        toks = [(m.lastgroup if m.lastgroup != 'h' else 'str', m.group(), m.start()) for m in TOKEN.finditer(text)]
        d = Def('mod', 'doc', self.f); d.scope = Scope('mod', None, d); d.home = d
        Parser(self.t, self.f, toks, d, '/nowhere', shift).run()

    def bind(self, scope, name, d):
        scope.names.setdefault(name.removeprefix('r#'), []).append(d)

    def segs(self, i):
        """The path whose first segment is token i."""
        k = self.k; out = [(k[i][1], self.shift(k[i][2]))]
        if i and k[i-1][1] == '$' and k[i][1] == 'crate': out = [('crate', out[0][1])]
        i += 1
        while i + 1 < len(k) and k[i][1] == '::' and k[i+1][0] == 'id':
            out.append((k[i+1][1], self.shift(k[i+1][2])))
            i += 2
        # a method after a turbofish, `Type::<T>::of`
        if i + 1 < len(k) and k[i][1] == '::' and k[i+1][1] == '<':
            d = 0; j = i + 1
            while j < len(k) and j < i + 60:
                if k[j][1] == '<': d += 1
                elif k[j][1] == '>':
                    d -= 1
                    if d == 0: break
                j += 1
            if j + 2 < len(k) and k[j+1][1] == '::' and k[j+2][0] == 'id':
                out.append((k[j+2][1], self.shift(k[j+2][2])))
        return out

    def path(self, i, scope):
        k = self.k
        segs = self.segs(i)
        want = self.t.interesting
        if not any(a in want for a, _ in segs): return
        if len(segs) == 1:
            name = segs[0][0]
            nxt = k[i+1][1] if i + 1 < len(k) else ''
            if name[0].islower() and nxt not in ('(', '::', ')', ','): return
            if name[0].islower() and nxt in (')', ',') and k[i-1][1] not in ('(', ','): return
            if nxt == ':' and name[0].islower(): return
        self.t.occ.append((self.f, scope, segs, None))

    def impl(self, i):
        k = self.k; n = len(k)
        if i < n and k[i][1] == '<':
            d = 0
            while i < n:
                if k[i][1] == '<': d += 1
                elif k[i][1] == '>':
                    d -= 1
                    if d == 0: break
                i += 1
            i += 1
        start = i; d = 0; j = i
        while j < n and k[j][1] not in ('{', ';'):
            if k[j][1] == '<': d += 1
            elif k[j][1] == '>': d -= 1
            elif k[j][1] == 'for' and d == 0 and k[j+1][1] != '<': start = j + 1
            elif k[j][1] == 'where' and d == 0: break
            j += 1
        i = start
        while i < n and (k[i][1] in ('&', 'mut', 'dyn', '(', '[', '!') or k[i][0] == 'life'): i += 1
        return self.segs(i) if i < n and k[i][0] == 'id' else None

    def use(self, i, scope):
        k = self.k; n = len(k)
        public = k[i-2][1] in ('pub', ')') if i > 1 else False
        def tree(i, prefix):
            segs = list(prefix)
            if k[i][1] == '::': i += 1
            while True:
                if k[i][1] == '{':
                    i += 1
                    while k[i][1] != '}':
                        i = tree(i, segs)
                        if k[i][1] == ',': i += 1
                    return i + 1
                if k[i][1] == '*':
                    u = Use(segs, scope, public); scope.globs.append(u); scope.uses.append(u)
                    self.record(scope, segs)
                    return i + 1
                if k[i][1] == '$': i += 1; continue
                segs.append((k[i][1], self.shift(k[i][2]))); i += 1
                if k[i][1] == '::': i += 1; continue
                alias = None
                if k[i][1] == 'as': alias = k[i+1][1]; i += 2
                if segs[-1][0] == 'self' and len(segs) > 1: segs.pop()
                u = Use(segs, scope, public); scope.uses.append(u)
                scope.names.setdefault((alias or segs[-1][0]).removeprefix('r#'), []).append(u)
                self.record(scope, segs)
                return i
        try:
            i = tree(i, [])
        except IndexError:
            return n
        return i

    def record(self, scope, segs):
        if any(a in self.t.interesting for a, _ in segs):
            self.t.occ.append((self.f, scope, list(segs), 'use'))

def lookup_in(tree, d, name, ns, seen, only_public=False):
    """A name inside a module or an enum."""
    name = name.removeprefix('r#')
    if d.kind == 'enum':
        return [VARIANT] if name in d.variants else []
    if d.kind != 'mod' or d.scope is None: return []
    return lookup_scope(tree, d.scope, name, ns, seen, only_public)

def lookup_scope(tree, scope, name, ns, seen, only_public=False):
    key = (id(scope), name, ns)
    if key in seen: return []
    seen = seen | {key}
    out = []
    for b in scope.names.get(name, ()):
        if isinstance(b, Def):
            if ns is None or b.ns == ns: out.append(b)
        elif b.public or not only_public:
            out += resolve_use(tree, b, ns, seen)
    if out: return out
    for g in scope.globs:
        for d in resolve_use(tree, g, 'T', seen):
            m = scope.mod
            while m is not None and m is not d: m = m.parent
            r = lookup_in(tree, d, name, ns, seen, m is None)
            if r: out += r
    return out

def resolve_use(tree, u, ns, seen):
    if ns in u.cache: return u.cache[ns]
    if u.busy: return []
    u.busy = True
    try:
        chain = resolve(tree, u.scope, [a for a, _ in u.segs], ns, seen, True)
        r = chain[-1] if chain and len(chain) == len(u.segs) else []
    finally:
        u.busy = False
    if r: u.cache[ns] = r
    return r

def self_def(tree, scope):
    while scope is not None:
        if scope.kind == 'impl' and scope.self_path:
            c = resolve(tree, scope.parent, [a for a, _ in scope.self_path], 'T')
            return c[-1] if len(c) == len(scope.self_path) else []
        if scope.kind in ('enum', 'trait') and scope.self_path: return scope.self_path
        scope = scope.parent
    return []

def follow(tree, d):
    n = 0
    while d.kind == 'type' and d.alias and n < 5:
        segs, sc = d.alias
        c = resolve(tree, sc, [a for a, _ in segs], 'T')
        if len(c) != len(segs) or not c[-1]: break
        d = c[-1][0]; n += 1
    return d

def resolve(tree, scope, segs, ns, seen=frozenset(), in_use=False):
    """A list per resolved segment: the definitions that it may mean."""
    out = []
    first = segs[0]
    mod = scope.mod
    last = len(segs) == 1
    want = ns if last else 'T'
    if first == 'crate':
        m = mod
        while m.parent is not None: m = m.parent
        cur = [m]
    elif first == 'self':
        cur = [mod]
    elif first == 'super':
        cur = [mod.parent] if mod.parent else []
    elif first == 'Self':
        cur = self_def(tree, scope)
    else:
        cur = []
        name = first.removeprefix('r#')
        sc = scope
        while sc is not None and not cur:
            cur = lookup_scope(tree, sc, name, want, seen)
            if sc.kind == 'mod': break
            sc = sc.parent
        if not cur and name in tree.externs:
            cur = [tree.externs[name]]
    if not cur: return out
    out.append(cur)
    for n, s in enumerate(segs[1:], 1):
        want = ns if n == len(segs) - 1 else 'T'
        nxt = []
        for d in cur:
            if s == 'super':
                if d.kind == 'mod' and d.parent: nxt.append(d.parent)
            elif d.kind == 'mod' or d.kind == 'enum':
                nxt += lookup_in(tree, d, s, want, seen)
        if not nxt: return out
        out.append(nxt)
        cur = nxt
    return out

def markdown(tree, f):
    """Code in Markdown, and whole paths between backticks."""
    d = Def('mod', 'page', f); d.scope = Scope('mod', None, d); d.home = d
    p = Parser(tree, f, [], d, '/nowhere')
    block = None; pos = 0
    for line in tree.text(f).split('\n'):
        if line.lstrip().startswith('```'):
            if block is None: block = ([], line.strip()[3:].split(',')[0] == 'rust')
            else:
                if block[1]: p.fence(block[0])
                block = None
        elif block is not None: block[0].append((line, pos))
        elif '`' in line: tree.comments.append((f, d.scope, pos, line))
        pos += len(line) + 1

def table(name):
    p = os.path.join(HERE, name)
    if not os.path.exists(p): return
    for line in open(p, encoding='utf-8'):
        line = line.rstrip('\n')
        if line.strip() and not line.startswith('#'): yield line

def tracked(root, *pat):
    return [f for f in subprocess.check_output(['git', '-C', root, 'ls-files', *pat], text=True).split('\n')
            if f and os.path.isfile(os.path.join(root, f)) and not os.path.islink(os.path.join(root, f))]

def load(tree):
    root = tree.root
    roots = []
    for man in tracked(root, '*Cargo.toml'):
        d = os.path.dirname(man)
        with open(os.path.join(root, man), 'rb') as h: m = tomllib.load(h)
        if 'package' not in m: continue
        pkg = m['package']['name']
        j = lambda *p: os.path.normpath(os.path.join(d, *p))
        ex = lambda p: os.path.exists(os.path.join(root, p))
        seen = set()
        lib = j(m.get('lib', {}).get('path', 'src/lib.rs'))
        if ex(lib):
            roots.append((m.get('lib', {}).get('name', pkg.replace('-', '_')), lib, True)); seen.add(lib)
        rest = [j(b['path']) for key in ('bin', 'test', 'bench', 'example') for b in m.get(key, []) if 'path' in b]
        rest += [j('src/main.rs'), j(m['package'].get('build') or 'build.rs') if isinstance(m['package'].get('build', 'build.rs'), str) else j('build.rs')]
        for folder in ('src/bin', 'tests', 'benches', 'examples'):
            key = {'src/bin': 'autobins', 'tests': 'autotests'}.get(folder, 'auto' + folder)
            if m['package'].get(key) is False: continue
            p = os.path.join(root, d, folder)
            if os.path.isdir(p):
                for e in sorted(os.listdir(p)):
                    if e.endswith('.rs'): rest.append(j(folder, e))
                    elif ex(j(folder, e, 'main.rs')): rest.append(j(folder, e, 'main.rs'))
        for p in rest:
            if p not in seen and ex(p): seen.add(p); roots.append((pkg, p, False))
    for name, p, lib in roots:
        d = tree.root_module(name, p)
        if lib: tree.externs[name] = d
    left = [f for f in tracked(root, '*.rs') if f not in tree.mods]
    for f in tracked(root, '*.md'):
        if '```rust' in tree.text(f) or '::' in tree.text(f): markdown(tree, f)
    for f in left:      # files that a target includes in another way
        tree.root_module(os.path.basename(f), f)
    return left

def main():
    args = [a for a in sys.argv[1:] if not a.startswith('--')]
    dry = '--dry' in sys.argv
    root = os.path.abspath(args[0])
    tree = Tree(root)
    types, mods, fns = [], [], []
    for l in table('types.txt'):
        f, a, b = l.split()[:3]; types.append((f, a, b))
    for l in table('modules.txt'):
        f, b = l.split()[:2]; mods.append((f.rstrip('/'), b))
    for l in table('fns.txt'):
        w = l.split(); fns.append((w[0], w[1], w[2], w[3:]))
    modname = lambda f: os.path.basename(f).removesuffix('.rs')
    tree.interesting = {a for _, a, _ in types} | {modname(f) for f, _ in mods} | {a.split('::')[-1] for _, a, _, _ in fns}
    load(tree)

    new = {}            # id(def) -> new name
    assoc = {}          # (id(type def), fn) -> new name
    for f, a, b in types:
        ds = [d for d in tree.defs.get((f, a), []) if d.kind in ITEM]
        if not ds:
            crate = f.split('/src/')[0] + '/' if '/src/' in f else os.path.dirname(f) + '/'
            stem = lambda p: (os.path.basename(os.path.dirname(p)) if p.endswith('/mod.rs') else os.path.basename(p).removesuffix('.rs'))
            known = {(g, n) for g, n, _ in types}
            near = {d.file for (g, n), v in tree.defs.items() if n == a and g.startswith(crate) and (g, n) not in known
                    and '/tests/' not in g for d in v if d.kind in ITEM}
            same = [g for g in near if stem(g) == stem(f)]
            if len(same) == 1:
                g = same[0]; ds = [d for d in tree.defs[(g, a)] if d.kind in ITEM]
                tree.problems.append(f'note: {f} {a} found in {g}')
            else:
                tree.problems.append(f'missing: type {f} {a}' + (f' (candidates: {sorted(near)})' if near else ''))
        for d in ds:
            new[id(d)] = b
            if b in d.home.names: tree.problems.append(f'clash: {f} {a} -> {b} exists in the module')
    moves = []          # (old path, new path) of files and folders
    for f, b in mods:
        p = f if f.endswith('.rs') else f + '/mod.rs'
        ds = tree.mods.get(p, [])
        if not ds or not os.path.exists(os.path.join(root, p)):
            tree.problems.append(f'missing: module {f}'); continue
        for d in ds:
            if d.name == modname(f): new[id(d)] = b
            if d.home is not d and isinstance(d.home, Scope) and b in d.home.names and any(isinstance(x, Def) and x.kind == 'mod' for x in d.home.names[b]):
                tree.problems.append(f'clash: module {f} -> {b}')
        stem = f.removesuffix('.rs')
        to = os.path.join(os.path.dirname(f), b)
        if f.endswith('.rs'): moves.append((f, to + '.rs'))
        if os.path.isdir(os.path.join(root, stem)): moves.append((stem, to))
    for f, a, b, uses in fns:
        if '::' in a:
            ty, fn = a.split('::')
            ds = [d for d in tree.defs.get((f, ty), []) if d.kind in ITEM]
            if not ds:
                # the type stands elsewhere in the crate; the impl is in this file
                crate = f.split('/src/')[0] if '/src/' in f else os.path.dirname(f)
                ds = [d for (g, n), v in tree.defs.items() if n == ty and g.startswith(crate) for d in v if d.kind in ITEM]
            if not ds: tree.problems.append(f'missing: fn {f} {a}')
            for d in ds: assoc[(id(d), fn)] = b
        else:
            ds = [d for d in tree.defs.get((f, a), []) if d.kind == 'fn']
            if not ds: tree.problems.append(f'missing: fn {f} {a}')
            for d in ds: new[id(d)] = b

    def put(f, pos, old, name):
        raw = old.startswith('r#')
        tree.edits[f][pos] = (old, name)

    def rename(f, scope, segs, leaf):
        if isinstance(leaf, Def):
            if id(leaf) in new: put(f, segs[0][1], segs[0][0], new[id(leaf)])
            return
        names = [a for a, _ in segs]
        ns_list = ('T', 'V') if leaf == 'use' or names[-1][0].islower() else ('T',)
        done = set()
        for ns in ns_list:
            chain = resolve(tree, scope, names, ns)
            for n, ds in enumerate(chain):
                for d in ds:
                    if n == len(segs) - 1 and len(segs) == 1 and leaf != 'use' and d.kind == 'mod': continue
                    if id(d) in new and d.name == names[n].removeprefix('r#'):
                        put(f, segs[n][1], names[n], new[id(d)])
                        if leaf == 'use' and n == len(segs) - 1 and new[id(d)] in scope.names and (f, names[n]) not in done:
                            done.add((f, names[n]))
                            tree.problems.append(f'clash: {f} imports {names[n]} -> {new[id(d)]}, which the scope has')
            if chain and len(chain) < len(segs):
                n = len(chain)
                for d in chain[-1]:
                    for e in {id(d): d, id(follow(tree, d)): follow(tree, d)}.values():
                        b = assoc.get((id(e), names[n]))
                        if b: put(f, segs[n][1], names[n], b)

    for f, scope, segs, leaf in tree.occ: rename(f, scope, segs, leaf)
    for f, scope, name, pos in tree.assoc:
        for d in self_def(tree, scope):
            b = assoc.get((id(d), name))
            if b: put(f, pos, name, b)
    ident = re.compile(r'[A-Za-z_]\w*')
    for f, scope, pos, s in tree.strings:
        if re.fullmatch(r'[\w:]+(<.*>)?', s):
            segs = [(m.group(), pos + m.start()) for m in ident.finditer(s.split('<')[0])]
            if segs and any(a in tree.interesting for a, _ in segs): rename(f, scope, segs, 'use')
    tick = re.compile(r'`(?P<a>[A-Za-z_]\w*(?:::\w+)*)(?P<call>\(\)|!)?`|\]\((?P<b>[A-Za-z_]\w*(?:::\w+)*)(?:\(\))?\)|\[(?P<c>[A-Z]\w*)\]')
    for f, scope, pos, s in tree.comments:
        for m in tick.finditer(s):
            g = 'a' if m.group('a') else 'b' if m.group('b') else 'c'
            x = m.group(g)
            segs = [(y.group(), pos + m.start(g) + y.start()) for y in ident.finditer(x)]
            if not any(a in tree.interesting for a, _ in segs): continue
            if len(segs) == 1 and segs[0][0][0].islower() and not (m.start() and s[m.start()-1] == '[') and g != 'b': continue
            rename(f, scope, segs, 'doc' if len(segs) > 1 or segs[0][0][0].isupper() else 'use')

    texts = {f: tree.text(f) for f in tree.edits}
    for f, e in tree.edits.items():
        t = texts[f]
        for pos in sorted(e, reverse=True):
            old, b = e[pos]
            if t[pos:pos+len(old)] != old:
                tree.problems.append(f'internal: {f}@{pos}: {old!r}'); continue
            t = t[:pos] + b + t[pos+len(old):]
        texts[f] = t
    # methods
    for f, a, b, uses in fns:
        fn = a.split('::')[-1]
        for g in uses:
            for h in fnmatch.filter(tracked(root, '*.rs'), g):
                t = texts.get(h) or tree.text(h)
                u = re.sub(r'(\.\s*)' + fn + r'(?=\()', r'\g<1>' + b, t)
                if u != t: texts[h] = u
                else: tree.problems.append(f'note: no .{fn}( in {h}')
    # code in Markdown is left to texts.txt; paths of files
    if moves: paths(tree, root, moves, texts)
    for l in table('texts.txt'):
        w = l.split('\t')
        hit = False
        for h in fnmatch.filter(tracked(root), w[0]):
            t = texts.get(h) or tree.text(h)
            u = re.sub(w[1], w[2], t, flags=re.M)
            if u != t: texts[h] = u; hit = True
        if not hit: tree.problems.append(f'note: text without a place: {w[0]} {w[1]}')
    # articles before the new names, in comments
    vowels = {b for _, _, b in types}
    art = re.compile(r'\b([Aa])(n?) (\[?`?)(' + '|'.join(sorted(vowels)) + r')\b')
    def article(m):
        n = 'n' if m.group(4)[0] in 'AEIO' or m.group(4).startswith('Un') else ''
        return f'{m.group(1)}{n} {m.group(3)}{m.group(4)}'
    for f in list(texts):
        if f.endswith('.rs'):
            texts[f] = '\n'.join(art.sub(article, l) if '//' in l else l for l in texts[f].split('\n'))
    changed = {f: t for f, t in texts.items() if t != tree.text(f)}
    print(f'{len(changed)} files, {sum(len(e) for e in tree.edits.values())} names, {len(moves)} moves')
    for p in dict.fromkeys(tree.problems): print(p)
    if dry: return
    for f, t in changed.items():
        with open(os.path.join(root, f), 'w', encoding='utf-8', newline='') as h: h.write(t)
    for a, b in sorted(moves, key=lambda m: -m[0].count('/')):
        subprocess.check_call(['git', '-C', root, 'mv', a, b])
    if '--no-fmt' not in sys.argv:
        for w in ('.', 'evaluation'):
            subprocess.call(['cargo', 'fmt', '--all'], cwd=os.path.join(root, w))
    for f in changed:
        g = f
        for a, b in moves:
            if g == a or g.startswith(a + '/'): g = b + g[len(a):]
        if g.endswith('.rs'):
            with open(os.path.join(root, g), encoding='utf-8') as h: n = h.read().count('\n')
            if n > 800: print(f'note: {g} has {n} lines')
        if g.endswith('.rs'): wrap(os.path.join(root, g), set(tree.text(f).split('\n')))

WIDTH = 110

def wrap(path, before):
    """Moves the last words of comment lines that became too long to the next line of their paragraph."""
    with open(path, encoding='utf-8', newline='') as h: lines = h.read().split('\n')
    rx = re.compile(r'(\s*//[/!]? ?)(\s*(?:[*-] |\d+\. )?)(.*)')
    i = 0; any_change = False
    while i < len(lines):
        l = lines[i]
        m = rx.fullmatch(l)
        if len(l) <= WIDTH or l in before and not any_change or not m or '`' in m.group(3) and m.group(3).startswith('```') or '|' == m.group(3)[:1]:
            i += 1; continue
        cut = l.rfind(' ', 0, WIDTH + 1)
        while cut > 0 and l[:cut].count('`') % 2: cut = l.rfind(' ', 0, cut)
        if cut <= len(m.group(1)) + len(m.group(2)): i += 1; continue
        rest = l[cut + 1:]
        lines[i] = l[:cut]; any_change = True
        indent = ' ' * len(m.group(2))
        nxt = rx.fullmatch(lines[i + 1]) if i + 1 < len(lines) else None
        if nxt and nxt.group(1) == m.group(1) and nxt.group(2) == indent and nxt.group(3) and not nxt.group(3).startswith(('#', '```', '|')):
            lines[i + 1] = m.group(1) + indent + rest + ' ' + nxt.group(3)
        else:
            lines.insert(i + 1, m.group(1) + indent + rest)
        i += 1
    if any_change:
        with open(path, 'w', encoding='utf-8', newline='') as h: h.write('\n'.join(lines))

def paths(tree, root, moves, texts):
    """Follows moved files in every text: whole paths, and paths relative to the file or to a folder above."""
    by = collections.defaultdict(list)
    for a, b in moves: by[os.path.basename(a)].append((a, b))
    names = '|'.join(re.escape(n) for n in sorted(by, key=len, reverse=True))
    rx = re.compile(r'(?<![\w./-])((?:[\w.-]+/)*)(' + names + r')((?:/[\w.-]+)*)(?![\w-])')
    every = set(tracked(root))
    folders = {os.path.dirname(f) for f in every}
    for f in list(folders):
        while f: f = os.path.dirname(f); folders.add(f)
    skip = ('.png', '.svg', '.ico', '.woff2', '.bin', '.pcap', '.pcapng', '.lock')
    for f in every:
        if f.endswith(skip) or f.startswith('transports/') and f.endswith('.pkt'): continue
        try: t = texts.get(f) or tree.text(f)
        except UnicodeDecodeError: continue
        def sub(m):
            whole = m.group(0)
            if '/' not in whole and not whole.endswith('.rs'): return whole
            d = os.path.dirname(f)
            bases = [d]
            while d: d = os.path.dirname(d); bases.append(d)
            for base in bases:
                full = os.path.normpath(os.path.join(base, whole))
                if full not in every and full not in folders: continue
                done = full
                for a, b in sorted(moves, key=lambda x: -len(x[0])):
                    if done == a or done.startswith(a + '/'): done = b + done[len(a):]
                if done == full: return whole
                # the same number of components: replace from the right
                old = whole.split('/'); neu = done.split('/')
                keep = len(old)
                for n in range(1, keep + 1):
                    if old[-n] in ('..', '.') : break
                    old[-n] = neu[-n]
                return '/'.join(old)
            return whole
        u = rx.sub(sub, t)
        if u != t: texts[f] = u

main()
