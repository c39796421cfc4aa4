; Colours of MTP. What a name stands for, the language server knows better (semantic tokens).

(comment) @comment
(citation) @comment.documentation
(string) @string
(number) @number
(duration) @number
(boolean) @boolean

(type name: (identifier) @type)
(part type: (identifier) @type)
(struct_literal name: (identifier) @type)
(cast_type name: (identifier) @type)
(path scope: (identifier) @type)
(path name: (identifier) @constant)

(record name: (identifier) @type)
(event name: (identifier) @type)
(event kind: (identifier) @constant.builtin)
(context name: (identifier) @type)
(scratchpad name: (identifier) @type)
(extend name: (identifier) @type)
(enum name: (identifier) @type)
(opt_union name: (identifier) @type)
(opt_list name: (identifier) @type)
(variant name: (identifier) @constant)
(arm case: (identifier) @constant)
(const name: (identifier) @constant)
(table name: (identifier) @constant)
(param name: (identifier) @constant)

(function name: (identifier) @function)
(extern name: (identifier) @function)
(seg_rule name: (identifier) @function)
(registration name: (identifier) @function.builtin)
(call function: (identifier) @function.call)
(call function: (member name: (identifier) @function.method.call))
(emit (call function: (identifier) @function.builtin))
(listed processor: (identifier) @function)
(entry event: (identifier) @type)
(timer event: (identifier) @type)

(parameter name: (identifier) @variable.parameter)
(named name: (identifier) @property)
(timer name: (identifier) @property)
(part name: (identifier) @property)
(field_value name: (identifier) @property)
(member name: (identifier) @property)

[
  "import" "const" "param" "enum" "struct" "signal" "opt_t" "pkt_bp" "net_header" "event" "context" "scratchpad"
  "scratchpad_t" "extend" "opt_union" "opt_list" "pad" "seg_rule" "coalesce" "sched" "extern" "dispatch" "chain"
  "deploy" "attach" "before" "after" "select" "observable" "modifiable" "when" "count" "over" "mask" "timer_t"
  "part" "invariant" "by" "key" "emit" "in" "queue" "rank" "cost" "refuse" "assert"
] @keyword
["if" "else" "match" "default"] @keyword.conditional
"for" @keyword.repeat
["return" "break" "continue" "done"] @keyword.return

["(" ")" "[" "]" "{" "}"] @punctuation.bracket
[";" "," "." ":" "::"] @punctuation.delimiter
[
  "=" "+=" "-=" "*=" "/=" "%=" "&=" "|=" "^=" "<<=" "||" "&&" "|" "^" "&" "==" "!=" "<" "<=" ">" ">=" "<<"
  "+" "-" "*" "/" "%" "!" "~" "?" "->" ".."
] @operator
