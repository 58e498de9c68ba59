//! The page with the help of all commands, `docs/reference/cli.md`.

use std::path::Path;

use super::groundwork;

/// Returns the help of a command and, after it, that of its subcommands.
fn help(command: &[&str]) -> String {
    let run = groundwork(&[command, &["--help"]].concat(), "");
    assert_eq!(run.code, 0, "{}", run.err);
    let name = ["groundwork"].iter().chain(command).copied().collect::<Vec<_>>().join(" ");
    // Blanks at the ends of lines would be the only ones of the repository.
    let text = run.out.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
    let mut page = format!("## {name}\n\n```text\n{}\n```\n\n", text.trim_end());
    let commands =
        run.out.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // Lines that go on with a description are indented further.
    let names = commands.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    for name in names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help") {
        page.push_str(&help(&[command, &[name]].concat()));
    }
    page
}

#[test]
fn the_page_shows_the_help_of_each_command() {
    let intro = "# Commands, one by one\n\nThe help of each command, as `--help` prints it. [The command](../command.md) is the overview. A test compares this page; \
                 `GROUNDWORK_CLI_RECORD=1 cargo test -p groundwork --test cli reference` writes it.\n\n";
    let page = format!("{intro}{}", help(&[]).trim_end()) + "\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/cli.md");
    if std::env::var_os("GROUNDWORK_CLI_RECORD").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "docs/reference/cli.md is old: write it with GROUNDWORK_CLI_RECORD=1");
}
