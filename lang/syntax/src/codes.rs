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
        title: "an invalid character",
        text: "Outside comments and the names of imported files a program is ASCII: letters, digits, `_`,
blanks and the signs of the operators. Such characters often come with text pasted from a
paper: a typographic minus, a curly quotation mark, an arrow. Type them again.",
    },
    Code {
        code: "E0002",
        title: "an unterminated comment",
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
        title: "an unterminated string",
        text: "A string ends on its line, by a quotation mark. Strings are allowed in `import` only:

    import \"newreno.mtp\";",
    },
    Code {
        code: "E0006",
        title: "an unknown unit of time",
        text: "A number with letters after it is a duration. The units are ns, us, ms, s and min:

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
        title: "code replaced by `...`",
        text: "Printed snippets use `...` for omitted code. A program has to be whole: write the
missing part, or delete the dots. Ranges have two dots: `for (i in 0..5, 5)`.",
    },
    Code {
        code: "E0020",
        title: "a file that does not exist",
        text: "The path of an import is relative to the importing file, not to the current directory.",
    },
    Code {
        code: "E0021",
        title: "a file that is not UTF-8",
        text: "Programs are texts in UTF-8. The message names the first invalid byte: save the
file as UTF-8, or check that it is a text file.",
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
        title: "an import with an absolute path",
        text: "The path of an import is relative to the importing file, so that a folder of programs works
wherever it lies:

    import \"newreno.mtp\";
    import \"../cc/cubic.mtp\";",
    },
    Code {
        code: "E0025",
        title: "a file that cannot be read",
        text: "The operating system refused; the message states its reason. Check the file's permissions.",
    },
    Code {
        code: "E0100",
        title: "too many errors",
        text:
            "After 100 diagnostics in one file the rest is not shown: most often they have one cause. Correct
the first ones. If the file is not an MTP program, that is the cause.",
    },
    Code {
        code: "E0101",
        title: "an unexpected token",
        text: "The message states the expected and the actual token. The language is described, with an
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
        title: "an unclosed bracket",
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
        text:
            "Keywords that begin a declaration or a statement cannot be names of variables, fields or types;
`pkt_bp`, `event` and `context` are the ones met most often:

    TCPBP bp;        // not: TCPBP pkt_bp;

It is reported once for each word in a file.",
    },
    Code {
        code: "E0107",
        title: "`=` instead of `==`",
        text: "`=` is a statement, never part of an expression, so within parentheses it can only be a
slip for `==`.",
    },
    Code {
        code: "E0108",
        title: "an operator is missing",
        text: "Two conditions in parentheses follow each other. Write `||` between them if one is enough,
`&&` if both must hold:

    if ((len == 0 && seq > end) || (seq + len < start)) return;",
    },
    Code {
        code: "E0109",
        title: "a statement without an effect",
        text: "A statement is a declaration, an assignment, a call, `emit`, or begins with a keyword. The
value of a lone expression would be lost; a lone `;` has no meaning. An empty body is `{ }`.",
    },
    Code {
        code: "E0110",
        title: "nesting that is too deep",
        text: "Blocks, parentheses and types may nest 128 deep, and one expression may have 256 operators
in a row. Each arm of a `match` is a level below the one before, and an arm has at most 256
variants. Divide it: a helper function costs nothing, because it is put in place of its call.",
    },
    Code {
        code: "E0111",
        title: "a construct that MTP does not have",
        text: "The language resembles C, but every reaction ends and cannot fail. So it has no
`while`, `goto`, pointers or exceptions, and no `++`. Loops have a constant bound:

    for (x in ctx.pending, 16) { … }
    for (i in 0..n, 32) { if (i == ctx.last) break; … }",
    },
    Code {
        code: "E0112",
        title: "a statement or declaration in the wrong place",
        text: "Statements belong in functions, declarations outside them, `else` after the body of an `if`.
Most often a `}` too many, or braces missing around several statements, is the cause.",
    },
    Code {
        code: "E0113",
        title: "an unmatched `}`",
        text: "Delete it, or look for the place above where a block was closed too early.",
    },
    Code {
        code: "E0114",
        title: "a property that is given twice",
        text: "A field has one initial value, one `when`, one `count` and one `over`.",
    },
    Code {
        code: "E0115",
        title: "a string in an expression",
        text: "Strings are allowed in `import` only. States, kinds and codes are enums:

    enum state_t : uint8 { CLOSED, LISTEN, SYN_SENT }",
    },
    Code {
        code: "E0116",
        title: "a wrong operator",
        text: "An event's processors follow `->`, a chain's `=`, a timer's event `->`:

    dispatch d { chain tail = {cc, output}; tcp_ack -> {rto, tail}; }
    context c { timer_t rtx -> tcp_rtx; }",
    },
    Code {
        code: "E0117",
        title: "a call of a value that cannot be called",
        text: "A call begins with the name of a function, an instruction or a type, or an operation
of a field: `f(x)`, `uint32(x)`, `ctx.window.slide(x)`.",
    },
    Code {
        code: "E0118",
        title: "the values of a segmentation rule",
        text: "A rule names a field and gives its value in the first, the middle, the last and the only
packet. An omitted value is the one before it (`only` is `first`):

    seg_rule s_seq(x) [TCPBP::seq, x, prev.seq + prev.data.len];",
    },
    Code {
        code: "E0119",
        title: "an assignment to a value that cannot be changed",
        text: "The left side of `=` is a variable, a field or an element: `n`, `ctx.cwnd`, `ctx.l[i]`.",
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
