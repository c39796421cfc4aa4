//! `knowledge_writer STORE` writes increasing numbers into nodes, prints each number that is stored, and
//! continues until it is killed.

use std::error::Error;

use hawser_connect::knowledge::Settings;

mod open;

/// Makes the document of a node, one of a hundred, whose number only grows.
fn document(number: u64) -> String {
    format!(
        r#"{{ "uid": "n{}", "expire": -1, "properties": {{ "own/number": {{ "value": {number} }} }} }}"#,
        number % 100
    )
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = std::env::args_os()
        .nth(1)
        .ok_or("usage: knowledge_writer STORE")?;
    let knowledge = open::open(&Settings { store: Some(store.into()), ..Settings::default() }).await;
    let numbers = knowledge
        .list()
        .iter()
        .filter_map(|known| known.node["properties"]["own/number"]["value"].as_u64())
        .max();
    for number in numbers.map_or(0, |last| last + 1).. {
        knowledge.put(&document(number)).expect("it is right");
        if number % 3 == 0 {
            assert!(knowledge.flush().await);
            println!("kept {number}");
        }
    }
    Ok(())
}
