#!/usr/bin/env python3
"""Ranks the cases of this folder with NEAT's own policy manager, and writes down what it says.

    git clone https://github.com/NEAT-project/neat
    python3 neat.py neat/policy

NEAT is left as it is, but for the clock, which stands at the case's `now`. A case that `departs` gets
NEAT's result as NAME.neat.json, beside NAME.expected.json, which is written by hand; any other gets it as
NAME.expected.json. What NEAT leaves to chance (the order of equals) is put in order.
"""

import importlib.machinery
import importlib.util
import io
import json
import logging
import pathlib
import sys
import tempfile
import time
import os

HERE = pathlib.Path(__file__).resolve().parent


def load(folder):
    os.environ["HOME"] = tempfile.mkdtemp()
    sys.path.insert(0, folder)
    arguments, sys.argv = sys.argv, ["neatpmd"]
    out, sys.stdout = sys.stdout, io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    loader = importlib.machinery.SourceFileLoader("neatpmd", f"{folder}/neatpmd")
    spec = importlib.util.spec_from_loader("neatpmd", loader)
    neatpmd = importlib.util.module_from_spec(spec)
    loader.exec_module(neatpmd)
    sys.stdout, sys.argv = out, arguments
    logging.disable(logging.CRITICAL)
    return neatpmd


def plain(value):
    if isinstance(value, (set, frozenset)):
        return sorted((plain(v) for v in value), key=lambda v: json.dumps(v))
    if isinstance(value, tuple):
        return {"start": plain(value[0]), "end": plain(value[1])}
    if isinstance(value, float):
        if value in (float("inf"), float("-inf")):
            return "Inf" if value > 0 else "-Inf"
        return int(value) if value == int(value) else value
    return value


def rank(neatpmd, case):
    import cib
    import pib

    clock = [case.get("learnt", case["now"])]
    time.time = lambda: clock[0]
    empty = tempfile.mkdtemp()
    neatpmd.profiles, neatpmd.pib = pib.PIB(empty), pib.PIB(empty)
    for book, entries in ((neatpmd.profiles, "profiles"), (neatpmd.pib, "policies")):
        for entry in case.get(entries, []):
            book.register(pib.NEATPolicy(json.loads(json.dumps(entry))))
        for uid in case.get("remove", []):
            if uid in book.index:
                book.unregister(uid)
    neatpmd.cib = cib.CIB()
    for entry in case.get("cib", []):
        try:
            neatpmd.cib.register(cib.CIBNode(json.loads(json.dumps(entry))))
        except cib.CIBEntryError as error:
            if cib.CIB_EXPIRED not in error.args:
                raise
    neatpmd.cib.update_graph()
    clock[0] = case["now"]

    scores, clean = [], neatpmd.cleanup_special_properties

    def note(candidate):
        scores.append(candidate.score)
        clean(candidate)

    neatpmd.cleanup_special_properties = note
    out, sys.stdout = sys.stdout, io.StringIO()
    try:
        requests = neatpmd.convert_json_request(json.dumps(case["request"]))
        candidates = neatpmd.process_request(requests)
    finally:
        sys.stdout = out
        neatpmd.cleanup_special_properties = clean
    rows = []
    for place, candidate in enumerate(candidates):
        score = scores[place] if place < len(scores) else candidate.score
        properties = {}
        for key, one in candidate.items():
            properties[one.key] = {
                "value": plain(one.value), "precedence": one.precedence,
                "score": plain(float(one.score)), "evaluated": one.evaluated,
            }
        rows.append({"score": [plain(float(part)) for part in score],
                     "properties": dict(sorted(properties.items()))})
    rows.sort(key=lambda row: ([-part for part in row["score"]], json.dumps(row["properties"])))
    return rows


def main():
    neatpmd = load(sys.argv[1])
    for path in sorted(HERE.glob("*.json")):
        if path.name.endswith((".expected.json", ".neat.json")):
            continue
        case = json.loads(path.read_text())
        try:
            result = rank(neatpmd, case)
        except Exception as error:  # NEAT's error is part of the recording.
            result = {"error": f"{type(error).__name__}: {error}"}
        kind = "neat" if "departs" in case else "expected"
        target = path.with_name(f"{path.stem}.{kind}.json")
        text = json.dumps(result, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
        if "--check" in sys.argv:
            same = target.exists() and target.read_text() == text
            print(f"{'same' if same else 'DIFFERS'} {target.name}")
        else:
            target.write_text(text)


main()
