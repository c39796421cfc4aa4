//! Shell commands of scripts, parsed for their settings. They are never executed.

use std::path::{Path, PathBuf};

use super::table::Table;
use crate::script::python;

/// The maximum nesting of set-up scripts.
const DEEPEST: usize = 4;
/// The maximum number of commands of one script, set-up scripts included.
const MAX_COMMANDS: usize = 10_000;

/// The effect of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CommandEffect {
    /// A sysctl is set: its name with dots, and its value.
    Sysctl(String, String),
    /// The device's MTU is set.
    Mtu(u32),
    /// A command without an effect here.
    Note(String),
    /// The command asks whether a socket listens at this port.
    Listens(u16),
    /// The command asks whether the number of sockets in this state has these digits.
    Counts(&'static str, String),
    /// The command ends the connections in this state.
    Drops(&'static str),
    /// The command's outcome decides whether the script passes, and cannot be determined here.
    Beyond(String),
}

/// A function that reads the file of a set-up script, if it exists.
pub type ReadFile<'a> = &'a dyn Fn(&Path) -> Option<String>;

/// Returns the effects of a command in a script in `folder`.
pub(crate) fn effects(text: &str, folder: &Path, table: &Table, read: ReadFile<'_>) -> Vec<CommandEffect> {
    let mut effects = Vec::new();
    interpret(text, folder, table, read, DEEPEST, &mut effects);
    effects
}

fn interpret(
    text: &str,
    folder: &Path,
    table: &Table,
    read: ReadFile<'_>,
    depth: usize,
    out: &mut Vec<CommandEffect>,
) {
    let mut commands = commands(text).into_iter().peekable();
    while let Some(command) = commands.next() {
        if out.len() >= MAX_COMMANDS {
            return;
        }
        let port = commands
            .peek()
            .and_then(|next| listener_asked_for(&command, next));
        if let Some(port) = port {
            out.push(CommandEffect::Listens(port));
            commands.next();
            continue;
        }
        if command.words.first().is_some_and(|word| word == "sockstat") {
            let mut filters = Vec::new();
            while let Some(next) = commands.next_if(|next| next.piped) {
                filters.push(next);
            }
            out.push(match counted(&filters) {
                Some((state, digits)) => CommandEffect::Counts(state, digits),
                None => CommandEffect::Beyond(command.words.join(" ")),
            });
            continue;
        }
        let words: Vec<&str> = command.words.iter().map(String::as_str).collect();
        let Some((first, rest)) = words.split_first() else {
            continue;
        };
        let name = first.rsplit('/').next().unwrap_or(first);
        match name {
            "sysctl" => settings(rest.iter().filter(|word| !word.starts_with('-')), out),
            "set_sysctls.py" => settings(rest.iter(), out),
            "echo" if command.into.is_some() => {
                let path = command.into.as_deref().unwrap_or_default();
                out.push(CommandEffect::Sysctl(dotted(path), rest.join(" ")));
            }
            "ip" if rest.first() == Some(&"link") => match value_after(rest, "mtu") {
                Some(mtu) => out.push(CommandEffect::Mtu(mtu)),
                None => out.push(CommandEffect::Note(words.join(" "))),
            },
            "tcpdrop" if rest.len() == 2 && state_named(rest[1]).is_some() => {
                out.extend(state_named(rest[1]).map(CommandEffect::Drops));
            }
            // Scripts share no state, so that no setting has to be restored afterwards.
            "true" | ":" | "rm" => {}
            "ip" if rest.first() == Some(&"tcp_metrics") => {}
            _ if name.starts_with("sysctl_restore") => {}
            _ if name.ends_with(".sh") && depth > 0 => {
                let path = join(folder, first);
                let text = read(&path).or_else(|| table.setup(name).map(str::to_owned));
                match text {
                    Some(text) => interpret(
                        &text,
                        path.parent().unwrap_or(folder),
                        table,
                        read,
                        depth - 1,
                        out,
                    ),
                    None => out.push(CommandEffect::Note(format!("{} (no such file)", words.join(" ")))),
                }
            }
            _ if ASKING.contains(&name) => out.push(CommandEffect::Beyond(words.join(" "))),
            _ => out.push(CommandEffect::Note(words.join(" "))),
        }
    }
}

/// Returns the port in `grep " 0A " /proc/net/tcp | grep ":1F90"`, which asks whether a socket listens there.
fn listener_asked_for(command: &ShellCommand, next: &ShellCommand) -> Option<u16> {
    let is = |command: &ShellCommand, i: usize, word: &str| command.words.get(i).is_some_and(|w| w == word);
    let state = is(command, 0, "grep") && is(command, 1, " 0A ") && is(command, 2, "/proc/net/tcp");
    let port = next.words.get(1)?.strip_prefix(':')?;
    let asked = state && next.piped && is(next, 0, "grep") && port.len() == 4;
    u16::from_str_radix(port, 16).ok().filter(|_| asked)
}

/// Parses FreeBSD's `sockstat … | grep packetdril | grep -c TIME_WAIT | grep 1`. Returns the state and the
/// digits of the number of sockets in it. All sockets belong to the script's address family, ports and
/// process.
fn counted(filters: &[ShellCommand]) -> Option<(&'static str, String)> {
    let [others @ .., count, digits] = filters else {
        return None;
    };
    let words = |command: &ShellCommand| {
        command
            .words
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(" ")
    };
    let is_of_process = |command: &ShellCommand| words(command) == "grep packetdril";
    let (count, digits) = (words(count), words(digits));
    let state = state_named(count.strip_prefix("grep -c ")?)?;
    let digits = digits.strip_prefix("grep ")?.to_owned();
    others.iter().all(is_of_process).then_some((state, digits))
}

/// Returns the TCP_INFO state for a name of FreeBSD's tools.
fn state_named(name: &str) -> Option<&'static str> {
    let known = match name {
        "LISTEN" => "TCP_LISTEN",
        "SYN_SENT" => "TCP_SYN_SENT",
        "SYN_RCVD" => "TCP_SYN_RECV",
        "ESTABLISHED" => "TCP_ESTABLISHED",
        "CLOSE_WAIT" => "TCP_CLOSE_WAIT",
        "FIN_WAIT_1" => "TCP_FIN_WAIT1",
        "FIN_WAIT_2" => "TCP_FIN_WAIT2",
        "CLOSING" => "TCP_CLOSING",
        "LAST_ACK" => "TCP_LAST_ACK",
        "TIME_WAIT" => "TCP_TIME_WAIT",
        "CLOSED" => "TCP_CLOSE",
        _ => return None,
    };
    Some(known)
}

/// Commands that query the machine and fail a script on another answer, and one that ends connections from
/// outside.
const ASKING: &[&str] = &[
    "[", "[[", "cmp", "diff", "egrep", "exit", "expr", "false", "fgrep", "grep", "kldstat", "netstat",
    "nstat", "sockstat", "ss", "tcpdrop", "test",
];

fn join(folder: &Path, file: &str) -> PathBuf {
    folder.join(file)
}

fn value_after(words: &[&str], key: &str) -> Option<u32> {
    words.iter().skip_while(|word| **word != key).nth(1)?.parse().ok()
}

fn settings<'a>(words: impl Iterator<Item = &'a &'a str>, out: &mut Vec<CommandEffect>) {
    for word in words {
        out.push(match word.split_once('=') {
            Some((name, value)) => CommandEffect::Sysctl(dotted(name), value.to_owned()),
            None => CommandEffect::Note(format!("sysctl {word}")),
        });
    }
}

/// Converts `/proc/sys/net/ipv4/tcp_sack` and `net/ipv4/tcp_sack` to `net.ipv4.tcp_sack`.
fn dotted(name: &str) -> String {
    name.trim_start_matches("/proc/sys/")
        .trim_start_matches('/')
        .replace('/', ".")
}

/// One command: its words, and the file that receives its output.
#[derive(Debug, Default, PartialEq, Eq)]
struct ShellCommand {
    words: Vec<String>,
    into: Option<String>,
    /// True if the command reads the output of the one before.
    piped: bool,
}

/// Splits a text into commands: quotes, comments, continued lines, `;`, `&&`, `||`, pipes, output to a file,
/// and arithmetic in `$((…))`.
fn commands(text: &str) -> Vec<ShellCommand> {
    let mut commands = vec![ShellCommand::default()];
    let mut redirect = false;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let piped = first == '|' && !rest.starts_with("||");
        let (step, separates) = match first {
            '\\' if rest[1..].trim_start_matches([' ', '\t', '\r']).starts_with('\n') => {
                (rest.find('\n').map_or(rest.len(), |end| end + 1), false)
            }
            ' ' | '\t' | '\r' => (1, false),
            '#' => (rest.find('\n').unwrap_or(rest.len()), false),
            '|' if rest.starts_with("||") => (2, true),
            '\n' | ';' | '|' => (1, true),
            '&' if rest.starts_with("&&") => (2, true),
            '&' if rest.starts_with("&>") => {
                redirect = true;
                (2, false)
            }
            '&' => (1, true),
            '>' => {
                redirect = true;
                (rest.len() - rest.trim_start_matches('>').len(), false)
            }
            '1' | '2' if rest[1..].starts_with('>') => {
                redirect = true;
                let sign = rest[1..].trim_start_matches(['>', '&']);
                let len = rest.len() - sign.len();
                // `2>&1` names no file.
                let same = rest[..len].ends_with('&');
                redirect &= !same;
                (len + usize::from(same && !sign.is_empty()), false)
            }
            _ => {
                let (word, len) = word(rest);
                if let Some(command) = commands.last_mut() {
                    match std::mem::take(&mut redirect) {
                        true if command.into.is_none() => command.into = Some(word),
                        true => {}
                        false => command.words.push(word),
                    }
                }
                (len, false)
            }
        };
        rest = rest.get(step..).unwrap_or("");
        if separates {
            redirect = false;
            commands.push(ShellCommand { piped, ..ShellCommand::default() });
        }
    }
    commands.retain(|command| !command.words.is_empty());
    commands
}

/// Returns the word at the beginning of a text without its quotes, and its length in the text.
fn word(text: &str) -> (String, usize) {
    let mut word = String::new();
    let mut quote = None;
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        if let Some((value, len)) = arithmetic(&text[at..]) {
            word.push_str(&value);
            at += len;
            continue;
        }
        match (quote, c) {
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            (None, ' ' | '\t' | '\r' | '\n' | ';' | '|' | '&' | '>') => break,
            (None, '\\') if text[at + 1..].starts_with(['\n', ' ', '\t', '\r']) => break,
            (_, c) => word.push(c),
        }
        at += c.len_utf8();
    }
    (word, at.max(1))
}

/// Returns the value of `$((…))`, and its length.
fn arithmetic(text: &str) -> Option<(String, usize)> {
    struct Nothing;
    impl python::NamedValues for Nothing {
        fn value(&self, name: &str) -> Result<python::Value, python::NameError> {
            Err(python::NameError::Unknown(name.to_owned()))
        }
    }
    let inner = text.strip_prefix("$((")?;
    let end = inner.find("))")?;
    let node = python::expression(&inner[..end]).ok()?;
    let value = python::evaluate(&node, &Nothing).ok()?;
    Some((value.to_string(), end + 5))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<CommandEffect> {
        let table = Table::parse("[setup]\n\"defaults.sh\" = \"sysctl -q a.b=known\"").expect("a table");
        let file = |path: &Path| {
            (path == Path::new("t/../common/set.sh"))
                .then(|| "sysctl -q net.ipv4.tcp_sack=0\nother.sh".to_owned())
        };
        effects(text, Path::new("t"), &table, &file)
    }

    fn sysctl(name: &str, value: &str) -> CommandEffect {
        CommandEffect::Sysctl(name.into(), value.into())
    }

    #[test]
    fn settings_are_read_in_all_forms() {
        let text = "sysctl -q net.ipv4.tcp_rmem=\"4096 540000 $((15*1024*1024))\" a.b=1 # why\n\
                    ../common/set_sysctls.py /proc/sys/net/ipv4/x=1 \\\n /proc/sys/net/ipv4/y=\"1 2\" > /dev/null 2>&1; \
                    echo 3 > /sys/module/m/p && ip link set dev tun0 mtu 1280 || sysctl -q net/ipv4/z=2 &> /dev/null";
        let want = [
            sysctl("net.ipv4.tcp_rmem", "4096 540000 15728640"),
            sysctl("a.b", "1"),
            sysctl("net.ipv4.x", "1"),
            sysctl("net.ipv4.y", "1 2"),
            sysctl("sys.module.m.p", "3"),
            CommandEffect::Mtu(1280),
            sysctl("net.ipv4.z", "2"),
        ];
        assert_eq!(read(text), want);
    }

    #[test]
    fn set_up_scripts_are_read_or_known() {
        let want = [
            sysctl("net.ipv4.tcp_sack", "0"),
            CommandEffect::Note("other.sh (no such file)".into()),
            sysctl("a.b", "known"),
            CommandEffect::Note("tc qdisc add dev tun0 root pfifo".into()),
        ];
        assert_eq!(
            read(
                "../common/set.sh\nx/defaults.sh\ntc qdisc add dev tun0 root pfifo\n/tmp/sysctl_restore_1.sh"
            ),
            want
        );
    }

    #[test]
    fn queries_of_the_system_are_unsupported_unlike_settings() {
        let asks = |text: &str| {
            read(text)
                .iter()
                .any(|effect| matches!(effect, CommandEffect::Beyond(_)))
        };
        assert!(
            asks("sockstat -4 -P tcp | grep -c SYN_RCVD")
                && asks("sockstat | grep x | grep -c SYN_RCVD | grep 1")
        );
        let counts = "sockstat -4 -P tcp -s | grep packetdril | grep -c TIME_WAIT | grep 1";
        assert_eq!(read(counts), [CommandEffect::Counts("TCP_TIME_WAIT", "1".into())]);
        assert_eq!(
            read("tcpdrop -s TIME_WAIT"),
            [CommandEffect::Drops("TCP_TIME_WAIT")]
        );
        assert!(
            asks("sysctl net.ipv4.tcp_sack | grep 1") && asks("[ -f x ] || exit 1") && asks("/bin/test -e y")
        );
        let listens = "grep \" 0A \" /proc/net/tcp /proc/net/tcp6 | grep \":1F90\"";
        assert_eq!(read(listens), [CommandEffect::Listens(8080)]);
        assert!(asks(&listens.replace('|', "||")) && asks(&listens.replace("0A", "01")));
        assert!(!asks("sysctl -w a.b=1") && !asks("tc qdisc add dev tun0 root pfifo") && !asks("true"));
    }

    #[test]
    fn any_text_can_be_read() {
        for text in ["\\", "$((", "\"", "2>", "2>&", ">", "é\\", "$((1//0))", "&", "'a"] {
            read(text);
        }
    }
}
