//! Columns, ranges and tables, with values computed by hand.

use serde_json::json;

use super::*;

fn columns_of(text: &str) -> Result<Vec<Column>, ScenarioError> {
    let file: File = read(&format!("scenario = \"x\"\n{text}"))?;
    table::columns(file.column)
}

#[test]
fn columns_make_one_figure_of_several() {
    let report = json!({ "ok": true, "flows": [{ "n": 1 }, { "n": 4 }, { "n": null }, { "n": 10 }] });
    for (by, figure) in [
        ("sum", 15.0),
        ("mean", 5.0),
        ("min", 1.0),
        ("max", 10.0),
        ("p50", 4.0),
        ("p99", 10.0),
    ] {
        let text = format!("[[column]]\nname = \"n\"\nof = \"flows.*.n\"\nby = \"{by}\"\n");
        let columns = columns_of(&text).expect("a column");
        assert_eq!(columns[0].figure(&report), Some(figure), "{by}");
    }
    for (of, figure) in [
        ("flows.1.n", Some(4.0)),
        ("ok", Some(1.0)),
        ("flows.7.n", None),
        ("slowdown.all", None),
    ] {
        let columns = columns_of(&format!("[[column]]\nname = \"n\"\nof = \"{of}\"\n")).expect("a column");
        assert_eq!(columns[0].figure(&report), figure, "{of}");
    }
}

#[test]
fn ranges_end_within_their_bounds() {
    let axes_of = |text: &str| {
        let file: File = read(&format!("scenario = \"x\"\n{text}")).expect("a file");
        axes::axes(file.vary).expect("axes")
    };
    let labels = |text: &str| -> Vec<String> {
        axes_of(text)[0]
            .choices
            .iter()
            .map(|choice| choice.label.clone())
            .collect()
    };
    let range = |from: &str, to: &str, step: &str| {
        labels(&format!(
            "[[vary]]\nkey = \"k\"\nfrom = {from}\nto = {to}\nstep = {step}\n"
        ))
    };
    assert_eq!(range("1", "10", "4"), ["1", "5", "9"]);
    assert_eq!(range("3", "1", "-1"), ["3", "2", "1"]);
    assert_eq!(range("0.1", "0.7", "0.2"), ["0.1", "0.3", "0.5", "0.7"]);
}

/// Every CSV field that could be taken for two is quoted (RFC 4180).
#[test]
fn csv_fields_are_quoted_as_rfc_4180_requires() {
    let table = Table {
        axes: vec!["a,b".into()],
        columns: vec!["n".into()],
        rows: vec![Row {
            number: 1,
            id: "i".into(),
            choices: vec!["say \"x\"".into()],
            seed: 3,
            ok: None,
            figures: vec![None],
        }],
    };
    assert_eq!(table.csv(), "\"a,b\",seed,ok,n,id\r\n\"say \"\"x\"\"\",3,,,i\r\n");
}
