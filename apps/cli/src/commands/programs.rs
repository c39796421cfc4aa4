//! `hawser programs [NAME…]`: lists transport programs with their params.

use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};

use hawser::programs::{self, ADDRESS_HALVES, Module};
use serde_json::{Value, json};

use super::build::checked;
use crate::exit::Outcome;

/// List the built-in transport programs, and the params of a program
///
/// With names, the command lists the params of these programs: their types, defaults and descriptions, as
/// the programs declare them. Commands with `--param` set them.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Names of built-in programs, or files (.mtp); by default all built-in programs, without their params
    names: Vec<PathBuf>,
    /// Print a JSON object for each program, with its params, one per line
    #[arg(long)]
    json: bool,
}

/// A declaration of a param, in the words of the program.
struct Param<'a> {
    name: &'a str,
    kind: &'a str,
    default: &'a str,
    about: &'a str,
    file: &'a str,
    line: usize,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let all: Vec<PathBuf> = programs::builtin_names().map(PathBuf::from).collect();
    let names = if args.names.is_empty() { &all } else { &args.names };
    for name in names {
        let module = checked(name)?;
        if args.json {
            println!("{}", as_json(name, &module));
        } else if args.names.is_empty() {
            println!(
                "{:<18} {:>3} params  {}",
                name.display(),
                params(&module).len(),
                about(name, &module)
            );
        } else {
            describe(name, &module);
        }
    }
    Ok(())
}

fn describe(name: &Path, module: &Module) {
    println!("{}: {}", name.display(), about(name, module));
    let params = params(module);
    let width = |of: fn(&Param<'_>) -> usize| params.iter().map(of).max().unwrap_or(0);
    let (names, kinds) = (width(|it| it.name.len()), width(|it| it.kind.len()));
    let defaults = width(|it| it.default.len());
    for Param { name, kind, default, about, .. } in &params {
        let line = format!("  {name:names$}  {kind:kinds$}  {default:defaults$}  {about}");
        println!("{}", line.trim_end());
    }
}

fn as_json(name: &Path, module: &Module) -> Value {
    let params = params(module);
    let params = params.iter().map(|param| {
        let unit = (param.kind == "duration_t").then_some("ns");
        let value = value(module, param.name);
        json!({
            "name": param.name, "type": param.kind, "default": param.default, "about": param.about,
            "value": value, "unit": unit, "file": param.file, "line": param.line,
        })
    });
    let params: Vec<Value> = params.collect();
    json!({ "program": name.display().to_string(), "about": about(name, module), "params": params })
}

/// Returns the default of a param: a number, or the text of an address, which the module holds as two numbers.
fn value(module: &Module, name: &str) -> Option<Value> {
    let number = |name: &str| {
        let mut params = module.params.iter();
        params.find(|param| param.name == name).map(|param| param.default)
    };
    if let Some(number) = number(name) {
        return Some(json!(number));
    }
    let [high, low] = ADDRESS_HALVES.map(|half| number(&format!("{name}{half}")));
    let bits = u128::from(high?) << 64 | u128::from(low?);
    Some(match Ipv6Addr::from_bits(bits) {
        Ipv6Addr::UNSPECIFIED => json!("NONE"),
        address => json!(address.to_canonical().to_string()),
    })
}

/// Describes a program by the first sentence of the comment at its head. A variant of a built-in program is
/// described by that of the file in which it differs.
fn about(name: &Path, module: &Module) -> String {
    let usual = name.to_str().and_then(varied).and_then(|usual| {
        let usual_module = checked(Path::new(usual)).ok()?;
        let is_usual = |file: &str| usual_module.files.iter().any(|(known, _)| known == file);
        let (file, text) = module.files.iter().find(|(file, _)| !is_usual(file))?;
        let file = file.rsplit('/').next().unwrap_or(file);
        Some(format!("{usual} with {file}: {}", sentence(text)))
    });
    usual.unwrap_or_else(|| sentence(module.files.first().map_or("", |(_, text)| text.as_str())))
}

/// Returns the built-in program of which `name` is a variant: `tcp` of `tcp-fast`.
fn varied(name: &str) -> Option<&'static str> {
    let (usual, _) = name.rsplit_once('-')?;
    programs::builtin_names()
        .find(|known| *known == usual)
        .filter(|_| programs::builtin_names().any(|known| known == name))
}

/// Returns the first sentence of the comment at the head of a file.
fn sentence(text: &str) -> String {
    let lines = text.lines().map_while(|line| line.strip_prefix("//"));
    let lines: Vec<&str> = lines.map(str::trim).take_while(|line| !line.is_empty()).collect();
    let text = lines.join(" ");
    let end = text
        .match_indices(". ")
        .find(|(at, _)| text[at + 2..].starts_with(char::is_uppercase));
    end.map_or(text.as_str(), |(at, _)| &text[..at])
        .trim_end_matches('.')
        .to_owned()
}

/// Returns the declarations of a program's params, in the order of the program.
fn params(module: &Module) -> Vec<Param<'_>> {
    let lines = module.files.iter().flat_map(|(file, text)| {
        let lines = text.lines().enumerate();
        lines.filter_map(move |(at, line)| declaration(file, at + 1, line))
    });
    let mut params: Vec<Param<'_>> = lines.collect();
    let place = |name: &str| {
        let first_half = format!("{name}{}", ADDRESS_HALVES[0]);
        let mut params = module.params.iter();
        params.position(|param| param.name == name || param.name == first_half)
    };
    params.retain(|param| place(param.name).is_some());
    params.sort_by_key(|param| place(param.name));
    params
}

/// Reads `param KIND NAME = DEFAULT;  // ABOUT //= RFC`, if the line has this form.
fn declaration<'a>(file: &'a str, line: usize, text: &'a str) -> Option<Param<'a>> {
    let (declared, comment) = text.strip_prefix("param ")?.split_once(';')?;
    let (head, default) = declared.split_once('=')?;
    let (kind, name) = head.trim().split_once(' ')?;
    let about = comment
        .trim()
        .strip_prefix("//")
        .filter(|rest| !rest.starts_with('='));
    let about = about.unwrap_or_default().split("//=").next().unwrap_or_default();
    let (name, default, about) = (name.trim(), default.trim(), about.trim());
    Some(Param { name, kind, default, about, file, line })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_param_of_a_built_in_program_is_listed() {
        for name in programs::builtin_names() {
            let module = checked(Path::new(name)).expect("it is built in");
            let listed: Vec<&str> = params(&module).iter().map(|param| param.name).collect();
            let declared: Vec<&str> = module.params.iter().map(|param| param.name.as_str()).collect();
            assert_eq!(listed, declared, "{name}");
            assert!(!about(Path::new(name), &module).is_empty(), "{name}");
        }
    }

    #[test]
    fn a_param_that_is_an_address_is_listed_as_one() {
        let folder = hawser_documents::temporary::Folder::new().expect("a folder");
        let file = folder.join("served.mtp");
        let text = "// A program with a server.\n\
                    param ip_addr_t SERVER = ipv4(0xc000_0201);  // the server\n\
                    param ip_addr_t OTHER = NONE;\nparam uint32 COUNT = 3;\n\
                    event go : SYS_EVENT { }\ncontext last { uint32 n; ip_addr_t a; }\n\
                    void f(go ev, last l) { l.n = COUNT; l.a = SERVER == NONE ? OTHER : SERVER; }\n\
                    go start() { go e; return e; }\ndispatch d { go -> {f}; }\n\
                    deploy { register_ep_chains(d); register_ctx_spec(last, GLOBAL); register_ev_parser(start, start); }\n";
        std::fs::write(&file, text).expect("the file is written");
        let module = checked(&file).expect("the program is right");
        let listed = as_json(&file, &module);
        let params = listed["params"].as_array().expect("params");
        let shown: Vec<_> = params
            .iter()
            .map(|param| (&param["name"], &param["value"]))
            .collect();
        let expected = [
            json!("SERVER"),
            json!("192.0.2.1"),
            json!("OTHER"),
            json!("NONE"),
            json!("COUNT"),
            json!(3),
        ];
        let expected: Vec<_> = expected.chunks(2).map(|pair| (&pair[0], &pair[1])).collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_variant_is_described_by_the_file_in_which_it_differs() {
        let described = |name| {
            about(
                Path::new(name),
                &checked(Path::new(name)).expect("it is built in"),
            )
        };
        assert_eq!(
            described("tcp-newreno"),
            "tcp with newreno.mtp: NewReno (RFC 5681, RFC 6582)"
        );
        assert!(described("tcp-fast").starts_with("tcp with fast.mtp: FAST TCP (Jin, Wei, Low 2004)"));
        assert!(described("tcp").starts_with("TCP: RFC 9293"));
    }

    #[test]
    fn a_declaration_is_read_with_its_comment() {
        let line = "param duration_t MIN_RTO = 200ms;  // the usual value //= RFC6298 2.4";
        let param = declaration("tcp.mtp", 7, line).expect("a declaration");
        let parts = (param.kind, param.name, param.default, param.about);
        assert_eq!(parts, ("duration_t", "MIN_RTO", "200ms", "the usual value"));
        let line = "param bool NAGLE = true;  //= RFC9293 3.7.4 (SHLD-7)";
        assert_eq!(declaration("tcp.mtp", 8, line).map(|param| param.about), Some(""));
        assert!(declaration("tcp.mtp", 9, "const x = 1;").is_none());
    }
}
