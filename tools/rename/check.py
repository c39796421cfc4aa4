"""Compares the resolution of every renamed path: check.py CHECKOUT_BEFORE CHECKOUT_AFTER. Differences mean a wrong or a missing rename."""
import sys, os, re, collections, importlib.util, io, contextlib
src=open(__file__.replace('check.py','apply.py')).read().replace('\nmain()\n','\n')
ns={'__file__':__file__.replace('check.py','apply.py'),'__name__':'x'}
exec(compile(src,'apply','exec'),ns)
Tree,load,resolve,table,ITEM,Def,self_def,follow=[ns[k] for k in 'Tree load resolve table ITEM Def self_def follow'.split()]
old_root,new_root=sys.argv[1:3]
types=[l.split()[:3] for l in table('types.txt')]
mods=[l.split()[:2] for l in table('modules.txt')]
fns=[l.split()[:3] for l in table('fns.txt')]
moves=[]
for f,b in mods:
    to=os.path.join(os.path.dirname(f),b)
    moves.append((f,to+'.rs')); moves.append((f.removesuffix('.rs'),to))
def mv(f):
    for a,b in sorted(moves,key=lambda m:-len(m[0])):
        if f==a or f.startswith(a+'/'): return b+f[len(a):]
    return f
olds={a for _,a,_ in types}; news={b for _,_,b in types}
ren={(f,a):b for f,a,b in types}
def run(root,before):
    t=Tree(root); t.interesting=olds|news
    load(t)
    c=collections.Counter(); un=collections.Counter()
    for f,scope,segs,leaf in t.occ:
        if isinstance(leaf,Def): continue
        names=[a for a,_ in segs]
        chain=resolve(t,scope,names,'T')
        for n,a in enumerate(names):
            if a not in t.interesting: continue
            ff=mv(f) if before else f
            if n<len(chain):
                for d in {id(d):d for d in chain[n]}.values():
                    if d.kind=='variant' or d.kind=='mod': continue
                    if d.kind not in ITEM: continue
                    nm=ren.get((d.file,a),a) if before else a
                    if before and d.name==a: nm=ren.get((d.file,a),a)
                    df=mv(d.file) if before else d.file
                    c[(ff,nm,df)]+=1
            elif n==len(chain) and n==0:
                un[(ff,a)]+=1
    return t,c,un
tb,cb,ub=run(old_root,True)
ta,ca,ua=run(new_root,False)
d1=cb-ca; d2=ca-cb
print('before only',sum(d1.values()),'after only',sum(d2.values()))
for k,v in list(sorted(d1.items()))[:60]: print(' -',k,v)
for k,v in list(sorted(d2.items()))[:60]: print(' +',k,v)
# old names unresolved after, in crates where they were renamed
crates=collections.defaultdict(set)
for f,a,b in types: crates[a].add(f.split('/src/')[0])
print('unresolved differences')
for k in sorted(set(ua)|set(ub)):
    if ua[k]!=ub[k]: print('  ',k,ub[k],ua[k])
print('unresolved old names where the crate renames it')
for (f,a),n in sorted(ua.items()):
    if a in olds and any(f.startswith(c+'/') for c in crates[a]): print('  ',f,a,n)
# duplicates in a scope
seen=set()
def scopes(t):
    for f,ms in t.mods.items():
        for m in ms: yield f,m.scope
print('double bindings')
for f,sc in scopes(ta):
    for name,bs in sc.names.items():
        if name in news:
            T=[b for b in bs if not (isinstance(b,Def) and b.kind=='fn')]
            ids={id(x) for b in T for x in ([b] if isinstance(b,Def) else ns['resolve_use'](ta,b,'T',frozenset()))}
            if len(T)>1 and (f,name) not in seen:
                seen.add((f,name)); print('  ',f,name,len(T),len(ids))
