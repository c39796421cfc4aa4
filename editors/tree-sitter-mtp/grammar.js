/// <reference types="tree-sitter-cli/dsl" />
// The grammar of MTP (docs/language.md, "Grammar") for editors: colours, folding, movement by syntax.
//
// Words with a meaning in only one place (`part`, `when`, `queue`, ...) are names elsewhere, as in the
// language: they are keywords where the grammar expects them, and the parser decides by the place.

const PREC = {
  conditional: 1, or: 2, and: 3, bit_or: 4, bit_xor: 5, bit_and: 6, equal: 7, compare: 8, shift: 9, add: 10,
  multiply: 11, unary: 12, postfix: 13,
};

const list = (rule) => optional(seq(rule, repeat(seq(",", rule))));
const list1 = (rule) => seq(rule, repeat(seq(",", rule)));
// In braces, a comma may end the list.
const braced = (rule) => seq("{", optional(seq(list1(rule), optional(","))), "}");

module.exports = grammar({
  name: "mtp",

  word: ($) => $.identifier,

  extras: ($) => [/\s/, "\uFEFF", $.citation, $.comment],

  supertypes: ($) => [$._item, $._statement, $._expression],

  conflicts: ($) => [
    // `T a` and `a = e`, `list<T, N>` and `a < b`: the following tokens decide.
    [$.type, $._expression, $.cast_type],
    [$._expression, $.cast_type],
  ],

  rules: {
    // The paper ends some declarations with a semicolon.
    source_file: ($) => repeat(choice($._item, ";")),

    _item: ($) =>
      choice(
        $.import, $.const, $.param, $.table, $.enum, $.record, $.event, $.context, $.scratchpad, $.extend,
        $.opt_union, $.opt_list, $.seg_rule, $.coalesce, $.sched, $.extern, $.function, $.dispatch, $.deploy,
        $.attach,
      ),

    import: ($) => seq("import", field("path", $.string), ";"),
    const: ($) => seq("const", field("type", $.type), field("name", $.identifier), "=", field("value", $._expression), ";"),
    param: ($) => seq("param", field("type", $.type), field("name", $.identifier), "=", field("value", $._expression), ";"),
    table: ($) =>
      seq("const", field("type", $.type), field("name", $.identifier), "[", optional($._expression), "]", "=",
        braced($._expression), ";"),
    enum: ($) =>
      seq("enum", field("name", $.identifier), optional(seq(":", field("type", $.type))), braced($.variant)),
    variant: ($) => seq(field("name", $.identifier), optional(seq("=", field("value", $._expression)))),

    record: ($) =>
      seq(field("kind", choice("struct", "signal", "opt_t", "pkt_bp", "net_header")), field("name", $.identifier),
        "{", repeat($.field), "}"),
    event: ($) =>
      seq("event", field("name", $.identifier), ":", field("kind", $.identifier), "{", repeat($.field), "}"),
    context: ($) => seq("context", field("name", $.identifier), "{", repeat($._member), "}"),
    scratchpad: ($) =>
      seq(choice("scratchpad", "scratchpad_t"), optional(field("name", $.identifier)), "{", repeat($._member), "}"),
    extend: ($) =>
      seq("extend", choice("context", "scratchpad", "event", "struct"), field("name", $.identifier),
        "{", repeat($._member), "}"),
    opt_union: ($) => seq("opt_union", field("name", $.identifier), braced(field("member", $.identifier))),
    opt_list: ($) => seq("opt_list", field("name", $.identifier), "{", repeat(choice($.field, $.pad)), "}"),
    pad: ($) => seq("pad", $._expression, ";"),

    seg_rule: ($) =>
      seq("seg_rule", field("name", $.identifier), "(", list(field("parameter", $.identifier)), ")",
        "[", $.path, repeat(seq(",", $._expression)), "]", ";"),
    coalesce: ($) =>
      seq("coalesce", field("blueprint", $.identifier), "(", field("parameter", $.identifier), ",",
        field("parameter", $.identifier), ")", field("body", $.block)),
    sched: ($) =>
      seq("sched", field("name", $.identifier), "=", field("policy", $.identifier), "(", $._expression, ")",
        braced($.queue), ";"),
    queue: ($) =>
      seq(field("name", $.identifier), ":", field("policy", $.identifier),
        optional(seq("(", $._expression, ")"))),
    extern: ($) =>
      seq("extern", field("type", $.type), field("name", $.identifier), $.parameters,
        optional(seq("->", field("answer", $.identifier))), ";"),
    function: ($) =>
      seq(field("type", $.type), field("name", $.identifier), $.parameters, field("body", $.block)),
    parameters: ($) => seq("(", list($.parameter), ")"),
    parameter: ($) => choice(seq(field("type", $.type), field("name", $.identifier)), field("type", $.identifier)),

    dispatch: ($) => seq("dispatch", field("name", $.identifier), "{", repeat(choice($.chain, $.entry)), "}"),
    chain: ($) => seq("chain", field("name", $.identifier), "=", braced($.listed), ";"),
    entry: ($) => seq(field("event", $.identifier), "->", braced($.listed), ";"),
    listed: ($) => seq(field("processor", $.identifier), optional(seq("(", field("part", $.identifier), ")"))),

    deploy: ($) => seq("deploy", "{", repeat($.registration), "}"),
    registration: ($) =>
      seq(field("name", $.identifier), "(", list1(choice($._expression, $.select)), ")", ";"),
    select: ($) => seq("select", $._expression),
    attach: ($) =>
      seq("attach", field("processor", $.identifier), choice("before", "after"), field("anchor", $.identifier), ";"),

    field: ($) =>
      seq(repeat(choice("observable", $.modifiable)), field("type", $.type), list1($.named), ";"),
    modifiable: ($) => seq("modifiable", "(", $._expression, ",", $._expression, ")"),
    named: ($) =>
      seq(field("name", $.identifier), optional(seq("=", field("value", $._expression))), repeat($._clause)),
    _clause: ($) => choice($.when, $.count, $.over),
    when: ($) => seq("when", "(", $._expression, ")"),
    count: ($) => seq("count", "(", $._expression, ")"),
    over: ($) => seq("over", "(", list1($.term), ")"),
    term: ($) => seq($.identifier, optional(seq("mask", braced($.identifier)))),

    _member: ($) => choice($.field, $.timer, $.part, $.invariant),
    timer: ($) =>
      prec(1, seq("timer_t", field("name", $.identifier), optional(seq("->", field("event", $.identifier))), ";")),
    part: ($) => seq("part", field("type", $.identifier), field("name", $.identifier), ";"),
    invariant: ($) => seq("invariant", $._expression, ";"),

    type: ($) => seq(field("name", $.identifier), optional($.type_arguments)),
    type_arguments: ($) => seq("<", list1($._type_argument), ">"),
    _type_argument: ($) => choice($.type, $._size, $.by, $.key),
    // Without comparisons, so that `>` ends the arguments.
    _size: ($) => choice($.number, $.path, $.parenthesised, $.size),
    size: ($) =>
      choice(
        ...[["+", PREC.add], ["-", PREC.add], ["*", PREC.multiply], ["/", PREC.multiply], ["%", PREC.multiply]].map(
          ([operator, precedence]) =>
            prec.left(precedence,
              seq(choice($._size, $.identifier), operator, choice($._size, $.identifier)))),
      ),
    by: ($) => seq("by", "(", list1($.identifier), ")"),
    key: ($) => seq("key", $.identifier),

    block: ($) => seq("{", repeat($._statement), "}"),
    _statement: ($) =>
      choice(
        $.declaration, $.assignment, $.expression_statement, $.emit, $.if, $.match, $.for, $.jump, $.return, $.check,
        $.block,
      ),
    declaration: ($) => seq(field("type", $.type), list1($.variable), ";"),
    variable: ($) =>
      seq(field("name", $.identifier),
        optional(choice(seq("=", field("value", $._assigned)), seq("(", list($._expression), ")")))),
    assignment: ($) =>
      seq(field("place", $._expression),
        choice("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", seq(">", token.immediate(">="))),
        field("value", $._assigned), ";"),
    _assigned: ($) => choice($._expression, $.fields),
    fields: ($) => braced($._expression),
    expression_statement: ($) => seq($._expression, ";"),
    emit: ($) => seq("emit", $._expression, optional(seq("->", field("answer", $.identifier))), ";"),
    if: ($) =>
      prec.right(seq("if", "(", field("condition", $._expression), ")", field("then", $._statement),
        optional(seq("else", field("else", $._statement))))),
    match: ($) =>
      seq("match", "(", field("value", $._expression), ")", "{", repeat($.arm), "}"),
    arm: ($) => seq(choice("default", list1($._case)), "->", field("body", $._statement)),
    _case: ($) => field("case", choice($.identifier, $.path)),
    for: ($) =>
      seq("for", "(", field("name", $.identifier), "in", $._expression, optional(seq("..", $._expression)),
        optional(seq(",", $._expression)), ")", field("body", $._statement)),
    jump: ($) => seq(choice("break", "continue", "done"), ";"),
    return: ($) => seq("return", optional($._expression), ";"),
    check: ($) => seq(choice("refuse", "assert"), "(", $._expression, ")", ";"),

    _expression: ($) =>
      choice(
        $.identifier, $.path, $.number, $.duration, $.boolean, $.parenthesised, $.struct_literal, $.call, $.member,
        $.index, $.unary, $.binary, $.membership, $.conditional,
      ),
    parenthesised: ($) => seq("(", $._expression, ")"),
    path: ($) => seq(field("scope", $.identifier), "::", field("name", $.identifier)),
    struct_literal: ($) => seq(field("name", $.identifier), braced($.field_value)),
    field_value: ($) => seq(field("name", $.identifier), ":", field("value", $._expression)),
    member: ($) =>
      prec(PREC.postfix, seq(field("object", $._expression), choice(".", "->"), field("name", $.identifier))),
    index: ($) => prec(PREC.postfix, seq(field("list", $._expression), "[", $._expression, "]")),
    call: ($) =>
      prec(PREC.postfix,
        seq(field("function", choice($._expression, $.cast_type)), "(", list(choice($._expression, $.queue_argument, $.rank_argument, $.cost_argument)), ")")),
    // `seq<32>(x)`
    cast_type: ($) => prec.dynamic(1, seq(field("name", $.identifier), $.type_arguments)),
    queue_argument: ($) => prec(1, seq("queue", $._expression)),
    rank_argument: ($) => prec(1, seq("rank", $._expression)),
    cost_argument: ($) => prec(1, seq("cost", $._expression)),
    unary: ($) => prec(PREC.unary, seq(choice("!", "-", "~"), $._expression)),
    binary: ($) =>
      choice(
        ...[
          ["||", PREC.or], ["&&", PREC.and], ["|", PREC.bit_or], ["^", PREC.bit_xor], ["&", PREC.bit_and],
          ["==", PREC.equal], ["!=", PREC.equal], ["<", PREC.compare], ["<=", PREC.compare], [">", PREC.compare],
          [">=", PREC.compare], ["<<", PREC.shift],
          // Not one token, so that `list<seq<32>>` needs no space.
          [seq(">", token.immediate(">")), PREC.shift], ["+", PREC.add], ["-", PREC.add],
          ["*", PREC.multiply], ["/", PREC.multiply], ["%", PREC.multiply],
        ].map(([operator, precedence]) =>
          prec.left(precedence,
            seq(field("left", $._expression), field("operator", operator), field("right", $._expression)))),
      ),
    membership: ($) =>
      prec.left(PREC.compare, seq(field("left", $._expression), "in", braced($._expression))),
    conditional: ($) =>
      prec.right(PREC.conditional,
        seq(field("condition", $._expression), "?", field("then", $._expression), ":", field("else", $._expression))),

    boolean: () => choice("true", "false"),
    number: () => /0[xX][0-9a-fA-F_]+|[0-9][0-9_]*/,
    duration: () => /[0-9][0-9_]*(ns|us|ms|s|min)/,
    string: () => /"[^"\n]*"/,
    identifier: () => /[A-Za-z_][A-Za-z0-9_]*/,
    citation: () => token(prec(1, /\/\/=[^\n]*/)),
    comment: () => token(choice(/\/\/[^\n]*/, /\/\*[^*]*\*+([^/*][^*]*\*+)*\//)),
  },
});
