//! Runs inside the namespaces of the lab, as their first process.

use std::path::Path;
use std::time::Duration;

use hawser::interact::with_links;
use hawser::lab::run::{RunEvent, RunReport, hold_signals, run as run_all, run_beside};
use hawser::lab::{Lab, Spec, isolate, self_test};

use super::{RunArgs, SelfTestArgs, ShellArgs, UpArgs, exit_of, read};
use crate::exit::{Exit, Outcome};
use crate::interact::InteractArgs;
use crate::progress;

pub(super) fn up(file: &Path, args: &UpArgs) -> Outcome {
    let spec = read(file)?;
    let (program, arguments) = args
        .command
        .split_first()
        .ok_or_else(|| Exit::usage("no command"))?;
    let host = args.host.as_deref().unwrap_or(&spec.host[0].name);
    let run = (program.as_str(), arguments);
    beside(&spec, host, run, args.verbose, args.read_only, &args.interact)
}

pub(super) fn shell(args: &ShellArgs) -> Outcome {
    let spec = read(&args.file)?;
    let shell = std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".to_owned());
    eprintln!("this is a shell on {}; the lab ends with it", args.host);
    beside(
        &spec,
        &args.host,
        (&shell, &[]),
        false,
        args.read_only,
        &args.interact,
    )
}

fn beside(
    spec: &Spec,
    host: &str,
    (program, arguments): (&str, &[String]),
    verbose: bool,
    read_only: bool,
    interact: &InteractArgs,
) -> Outcome {
    let lab = bring_up(spec, read_only)?;
    let mut report = |news: RunEvent<'_>| {
        if verbose {
            show(&news, true);
        }
    };
    let body = || run_beside(&lab, spec, host, program, arguments, &mut report);
    match seen(&lab, interact, body)?.map_err(exit_of)? {
        0 => Ok(()),
        code => Err(Exit::reported(code)),
    }
}

pub(super) fn run(args: &RunArgs) -> Outcome {
    let spec = read(&args.file)?;
    if spec.host.iter().all(|host| host.run.is_none()) && spec.duration.0 == 0 {
        return Err(Exit::input(format!(
            "{}: no host has a command to `run`, and there is no `duration`",
            args.file.display()
        )));
    }
    let lab = bring_up(&spec, args.read_only)?;
    let every = args.every.map(|every| Duration::from_nanos(every.0));
    let body = || run_all(&lab, &spec, every, &mut |news| show(&news, args.json));
    let report = seen(&lab, &args.interact, body)?.map_err(exit_of)?;
    if args.json {
        print!(
            "{}\n",
            serde_json::to_string_pretty(&report).map_err(Exit::failed)?
        );
    } else {
        print(&report);
    }
    if report.ok {
        Ok(())
    } else {
        Err(Exit::failed("a command failed, or it was ended"))
    }
}

pub(super) fn self_test(args: &SelfTestArgs) -> Outcome {
    let bar = progress::steps(args.json, "self-test");
    let report = self_test::run(args.quick, &mut |case| bar.set_message(case.to_owned())).map_err(exit_of)?;
    bar.finish_and_clear();
    if args.json {
        print!(
            "{}\n",
            serde_json::to_string_pretty(&report).map_err(Exit::failed)?
        );
    } else {
        print!("{report}\n");
    }
    if report.ok {
        Ok(())
    } else {
        Err(Exit::failed(
            "the measurements of a link differ from its description",
        ))
    }
}

/// Runs `body` with the lab's links on the bus, if requested.
fn seen<T>(lab: &Lab, interact: &InteractArgs, body: impl FnOnce() -> T) -> Result<T, Exit> {
    let Some(bus) = interact.bus() else {
        return Ok(body());
    };
    with_links(&bus, lab, || {
        interact.listen(&bus)?;
        Ok(body())
    })
}

/// Brings up a lab, and prints warnings about features that this machine lacks.
fn bring_up(spec: &Spec, read_only: bool) -> Result<Lab, Exit> {
    hold_signals().map_err(exit_of)?;
    let shared = isolate(read_only).map_err(exit_of)?;
    let lab = Lab::up(spec).map_err(exit_of)?;
    shared
        .iter()
        .chain(lab.warnings())
        .for_each(|warning| eprintln!("hawser: warning: {warning}"));
    Ok(lab)
}

/// Prints news of the lab. With `apart`, all of it goes to standard error, because standard output is for a
/// report or a command.
fn show(news: &RunEvent<'_>, apart: bool) {
    match news {
        RunEvent::Line { host, is_error, line } if *is_error || apart => eprintln!("{host}: {line}"),
        RunEvent::Line { host, line, .. } => println!("{host}: {line}"),
        RunEvent::Changed(entry) => {
            eprintln!(
                "-- {:.3} s: the link {} changes",
                entry.time.as_secs_f64(),
                entry.change.link
            );
        }
        RunEvent::Ended(command) if command.code != 0 && !command.stopped => {
            eprintln!(
                "-- {}: `{}` ended with {}",
                command.host, command.command, command.code
            );
        }
        RunEvent::Ended(_) => {}
    }
}

fn print(report: &RunReport) {
    println!("-- {:.3} s", report.seconds);
    for link in &report.links {
        for (direction, done) in [("forward", &link.forward), ("backward", &link.backward)] {
            let lost: Vec<String> = done.lost.iter().map(|(what, n)| format!("{n} {what}")).collect();
            let lost = if lost.is_empty() {
                "none".to_owned()
            } else {
                lost.join(", ")
            };
            println!(
                "-- {} {direction}: {} frames in, {} out, lost: {lost}",
                link.link, done.sent, done.delivered
            );
        }
    }
}
