//! The report of a sweep: tables, drawings, and failures.

use hawser::lang::{OneLine, Printable};
use hawser::runs::sweep::{Failure, Folder, Sweep, Table, Task};
use serde_json::json;

use super::{Args, picture, refused};
use crate::commands::sim::shrink::save;
use crate::exit::{Exit, Outcome};

/// Merges the results into tables and prints the report of the sweep.
pub(super) fn finish(
    args: &Args,
    sweep: &Sweep,
    tasks: &[Task],
    found: usize,
    failures: &[Failure],
    folder: &Folder,
) -> Outcome {
    let table = sweep.table(tasks, &|task| folder.get(&task.id));
    folder
        .write(&folder.file("table.csv"), table.csv().as_bytes())
        .map_err(refused)?;
    let rows = serde_json::to_string_pretty(&table).map_err(Exit::failed)?;
    let rows = Printable(rows).to_string();
    folder
        .write(&folder.file("table.json"), rows.as_bytes())
        .map_err(refused)?;
    for (name, svg) in picture::draw(&table) {
        folder
            .write(&folder.file(&format!("{name}.svg")), svg.as_bytes())
            .map_err(refused)?;
    }
    let mut broken = Vec::new();
    for (task, row) in tasks.iter().zip(&table.rows) {
        if row.ok == Some(false) {
            broken.push((task, "the run failed".to_owned(), repeated(folder, task)?));
        }
    }
    for failure in failures {
        if let Some(task) = tasks.get(failure.number - 1) {
            broken.push((task, failure.why.clone(), repeated(folder, task)?));
        }
    }
    let ran = table.rows.iter().filter(|row| row.ok.is_some()).count();
    if args.json {
        let broken: Vec<_> = broken
            .iter()
            .map(|(task, why, command)| {
                json!({
                    "number": task.number, "id": task.id, "choices": task.choices, "seed": task.seed, "why": why,
                    "command": command,
                })
            })
            .collect();
        let object = json!({
            "ok": broken.is_empty(), "tasks": tasks.len(), "ran": ran - found, "kept": found, "failed": broken,
            "folder": args.out.display().to_string(),
        });
        print!("{object:#}\n");
    } else {
        print!("{}", text(&table));
        println!(
            "{} tasks: {} ran, {found} had a result already; tables and drawings are in {}",
            tasks.len(),
            ran - found,
            args.out.display()
        );
        for (task, why, command) in &broken {
            println!(
                "failed: {why}; repeat it with: {command}",
                why = described(&table, task, why)
            );
        }
    }
    let missing: Vec<String> = sweep.missing(&table).iter().map(ToString::to_string).collect();
    match broken.len() {
        0 if missing.is_empty() => Ok(()),
        0 => Err(Exit::input(missing.join("\nhawser: "))),
        count => Err(Exit::failed(format!("{count} of {} tasks failed", tasks.len()))),
    }
}

/// Saves the scenario of a failed run, and returns the command that repeats it.
fn repeated(folder: &Folder, task: &Task) -> Result<String, Exit> {
    let path = folder.failed(task).map_err(refused)?;
    save(&path, &task.scenario)?;
    Ok(format!(
        "hawser sim replay {} --seed {}",
        path.display(),
        task.seed
    ))
}

fn described(table: &Table, task: &Task, why: &str) -> String {
    let values = table.axes.iter().zip(&task.choices);
    let values: String = values
        .map(|(axis, choice)| format!("{axis} = {choice}, "))
        .collect();
    format!("{values}seed {}: {why}", task.seed)
}

/// Formats a line for each choice of values with the means. With several seeds it also shows the minimum and
/// maximum.
fn text(table: &Table) -> String {
    let head = table
        .axes
        .iter()
        .cloned()
        .chain(["runs".into()])
        .chain(table.columns.iter().cloned());
    let one_line = |text: &String| OneLine(text).to_string();
    let mut lines: Vec<Vec<String>> = vec![head.map(|name| one_line(&name)).collect()];
    for group in table.groups() {
        let mut line: Vec<String> = group.choices.iter().map(one_line).collect();
        line.push(group.runs.to_string());
        line.extend(group.figures.iter().map(|figure| match figure {
            None => "-".to_owned(),
            Some([mean, low, high]) if low == high => short(*mean),
            Some([mean, low, high]) => format!("{} ({} to {})", short(*mean), short(*low), short(*high)),
        }));
        lines.push(line);
    }
    let width = |place: usize| {
        let widths = lines
            .iter()
            .filter_map(|line| Some(line.get(place)?.chars().count()));
        widths.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..lines[0].len()).map(width).collect();
    let padded = |line: &Vec<String>| {
        let fields = line.iter().zip(&widths);
        let line: String = fields
            .map(|(field, width)| format!("{field:<width$}  "))
            .collect();
        format!("{}\n", line.trim_end())
    };
    lines.iter().map(padded).collect()
}

/// Formats a number with four significant digits.
fn short(value: f64) -> String {
    let size = value.abs().max(f64::MIN_POSITIVE).log10().floor();
    let places = (3.0 - size).clamp(0.0, 9.0) as usize;
    let text = format!("{value:.places$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_with_four_digits() {
        let texts = [0.0, 1.0, 0.012_345_6, 123.456, 9_876_543.2].map(short);
        assert_eq!(texts, ["0", "1", "0.01235", "123.5", "9876543"]);
    }
}
