//! The table behind `hawser explain`: E000x lexical, E002x loading, E01xx syntax.
//!
//! Each code that this crate or the driver reports has a row; the driver's tests check this with the failing
//! programs. The checker's codes (E02xx to E09xx) are in its own table.

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Code {
    /// The code, such as `E0101`.
    pub code: &'static str,
    /// A short title.
    pub title: &'static str,
    /// Plain text: the meaning, the reason, and a correct example.
    pub text: &'static str,
}

/// Returns the row of a code, ignoring letter case.
#[must_use]
pub fn explain(code: &str) -> Option<&'static Code> {
    CODES.iter().find(|row| row.code.eq_ignore_ascii_case(code))
}

/// All rows, in order of code.
pub const CODES: &[Code] = &[
    Code {
        code: "E0001",
        title: "a character that is not in the language",
        text: "Outside comments and the names of imported files a program is ASCII: letters, digits, `_`,
blanks and the signs of the operators. Such characters often come with text pasted from a
paper: a typographic minus, a curly quotation mark, an arrow. Type them anew.",
    },
    Code {
        code: "E0002",
        title: "a comment without an end",
        text: "`/*` begins a comment that ends at the next `*/`; such comments do not nest. A comment to
the end of the line begins with `//`.",
    },
    Code {
        code: "E0003",
        title: "not a number",
        text: "Numbers are whole: `10`, `1_000`, `0xff`. There are no fractions; take a smaller unit, or
compute a ratio by `mul_div(a, b, c)`, which is a * b / c with 128 bits in between.",
    },
    Code {
        code: "E0004",
        title: "a number that is too large",
        text: "A number has at most 64 bits: 18446744073709551615. Durations are counted in nanoseconds,
so the longest is about 584 years.",
    },
    Code {
        code: "E0005",
        title: "a string without an end",
        text: "A string ends on its line, by a quotation mark. Strings stand in `import` only:

    import \"newreno.mtp\";",
    },
    Code {
        code: "E0006",
        title: "an unknown unit of time",
        text: "A number with letters behind it is a duration. The units are ns, us, ms, s and min:

    param duration_t MIN_RTO = 200ms;

Hexadecimal numbers begin with 0x.",
    },
    Code {
        code: "E0007",
        title: "a file that is too large",
        text: "A file may have 1 MiB, which is some 25,000 lines. Divide it, and join the parts by
`import`; a program may have 64 files.",
    },
    Code {
        code: "E0008",
        title: "left out by `...`",
        text: "Printed snippets use `...` for what they leave out. A program has to be whole: write the
missing part, or delete the dots. Ranges have two dots: `for (i in 0..5, 5)`.",
    },
    Code {
        code: "E0020",
        title: "a file that does not exist",
        text: "An import is sought relative to the file that imports it, not to the current directory.",
    },
    Code {
        code: "E0021",
        title: "a file that is not UTF-8",
        text: "Programs are texts in UTF-8. The message names the first byte that does not fit: save the
file as UTF-8, or look whether it is a text at all.",
    },
    Code {
        code: "E0022",
        title: "too many files",
        text: "A program may have 64 files, imported ones included. Each counts once, however often it is
imported.",
    },
    Code {
        code: "E0023",
        title: "not a file",
        text: "The path names a directory, a device or a pipe. Name the `.mtp` file itself.",
    },
    Code {
        code: "E0024",
        title: "an import that is not relative",
        text: "An import names a file relative to the one it stands in, so that a folder of programs works
wherever it lies:

    import \"newreno.mtp\";
    import \"../cc/cubic.mtp\";",
    },
    Code {
        code: "E0025",
        title: "a file that cannot be read",
        text: "The system refused; the message has its reason. Look at the file's rights.",
    },
    Code {
        code: "E0100",
        title: "too many errors",
        text: "After 100 diagnostics in one file the rest is not shown: most often they have one cause. Mend
the first ones. If the file is not an MTP program, that is the cause.",
    },
    Code {
        code: "E0101",
        title: "something else was expected",
        text: "The message says what was expected and what stands there. The language is described, with an
example for each construct, in docs/language.md.",
    },
    Code {
        code: "E0102",
        title: "`;` is missing",
        text: "Statements, fields, constants, imports, entries of `dispatch` and registrations in `deploy`
end with `;`. What ends with `}` needs none, except `sched` and the entries of `dispatch`:

    dispatch d { tcp_send -> {record, transmit}; }",
    },
    Code {
        code: "E0103",
        title: "a bracket is not closed",
        text: "The message points to the opening bracket and to where the closing one was expected. For a
missing `}` that is the place where the next declaration begins: the brace itself belongs
somewhere before it. `hawser fmt` shows by the indentation where blocks really end.",
    },
    Code {
        code: "E0104",
        title: "not a declaration",
        text: "A file consists of declarations: import, const, param, enum, struct, event, context,
scratchpad, signal, opt_t, opt_union, opt_list, pkt_bp, net_header, seg_rule, coalesce, sched,
extern, dispatch, deploy, and functions `T name(params) { … }`. There are no variables outside
functions: what lasts is a field of a context.",
    },
    Code {
        code: "E0105",
        title: "an expression was expected",
        text: "Expressions are C's, without pointers, assignment and comma: numbers, names, fields, calls,
`l[i]`, `name{field: value}`, `c ? a : b` and the operators.",
    },
    Code {
        code: "E0106",
        title: "a keyword as a name",
        text: "Words that begin a declaration or a statement cannot be names of variables, fields or types;
`pkt_bp`, `event` and `context` are the ones met most often:

    TCPBP bp;        // not: TCPBP pkt_bp;

It is reported once for each word in a file.",
    },
    Code {
        code: "E0107",
        title: "`=` where `==` is meant",
        text: "`=` is a statement, never a part of an expression, so within parentheses it can only be a
slip for `==`.",
    },
    Code {
        code: "E0108",
        title: "an operator is missing",
        text: "Two conditions in parentheses stand side by side. Write `||` between them if one is enough,
`&&` if both must hold:

    if ((len == 0 && seq > end) || (seq + len < start)) return;",
    },
    Code {
        code: "E0109",
        title: "a statement that does nothing",
        text: "A statement is a declaration, an assignment, a call, `emit`, or begins with a keyword. The
value of a lone expression would be lost; a lone `;` says nothing. An empty body is `{ }`.",
    },
    Code {
        code: "E0110",
        title: "nested too deeply",
        text: "Blocks, parentheses and types may nest 128 deep, and one expression may have 256 operators
in a row. Divide it: a helper function costs nothing, because it is put in place of its call.",
    },
    Code {
        code: "E0111",
        title: "not in this language",
        text: "The language resembles C, but every reaction ends and nothing in it fails. So there are no
`while`, `goto`, pointers or exceptions, and no `++`. Loops have a constant bound:

    for (x in ctx.pending, 16) { … }
    for (i in 0..n, 32) { if (i == ctx.last) break; … }",
    },
    Code {
        code: "E0112",
        title: "in the wrong place",
        text: "Statements stand in functions, declarations outside them, `else` behind the body of an `if`.
Most often a `}` too many, or braces missing around several statements, is the cause.",
    },
    Code {
        code: "E0113",
        title: "a `}` that closes nothing",
        text: "Delete it, or look for the place above where a block was closed too early.",
    },
    Code {
        code: "E0114",
        title: "given twice",
        text: "A field has one initial value, one `when`, one `count` and one `over`.",
    },
    Code {
        code: "E0115",
        title: "a string in an expression",
        text: "Strings stand in `import` only. States, kinds and codes are enums:

    enum state_t : uint8 { CLOSED, LISTEN, SYN_SENT }",
    },
    Code {
        code: "E0116",
        title: "the wrong sign",
        text: "An event's processors follow `->`, a chain's `=`, a timer's event `->`:

    dispatch d { chain tail = {cc, output}; tcp_ack -> {rto, tail}; }
    context c { timer_t rtx -> tcp_rtx; }",
    },
    Code {
        code: "E0117",
        title: "this cannot be called",
        text: "What stands before `(` is the name of a function, an instruction or a type, or an operation
of a field: `f(x)`, `uint32(x)`, `ctx.window.slide(x)`.",
    },
    Code {
        code: "E0118",
        title: "a segmentation rule's values",
        text: "A rule names a field and gives its value in the first, the middle, the last and the only
packet. What is left out is the one before it (`only` is `first`):

    seg_rule s_seq(x) [TCPBP::seq, x, prev.seq + prev.data.len];",
    },
    Code {
        code: "E0119",
        title: "this cannot be assigned to",
        text: "On the left of `=` stands a variable, a field or an element: `n`, `ctx.cwnd`, `ctx.l[i]`.",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_codes_are_sorted_and_documented() {
        assert!(CODES.is_sorted_by(|a, b| a.code < b.code));
        for row in CODES {
            assert!(row.code.len() == 5 && row.code.starts_with('E'), "{}", row.code);
            assert!(row.text.len() > 40, "{} says too little", row.code);
        }
        assert!(explain("e0102").is_some() && explain("E9999").is_none());
    }
}
