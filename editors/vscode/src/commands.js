// The commands to run, separate from VS Code, so that they can be tested without it.

"use strict";

/** The language server. */
function serverCommand(hawser) {
  return { command: hawser, args: ["lsp", "--stdio"] };
}

/** The debug adapter. */
function debugCommand(hawser) {
  return { command: hawser, args: ["sim", "debug", "--dap"] };
}

/** A line for a terminal: `hawser sim run FILE`, with each word quoted for the shell if necessary. */
function commandLine(hawser, subcommand, path, platform) {
  return [hawser, ...subcommand.split(" "), path].map((word) => quoted(word, platform)).join(" ");
}

function quoted(word, platform) {
  if (/^[A-Za-z0-9_./:\\-]+$/.test(word) && (platform === "win32" || !word.includes("\\"))) {
    return word;
  }
  // PowerShell doubles a quote; POSIX shells close the text, escape the quote and open it again.
  return platform === "win32" ? `'${word.replaceAll("'", "''")}'` : `'${word.replaceAll("'", `'\\''`)}'`;
}

/** A run of a scenario under the debugger. */
function debugConfiguration(scenario) {
  const name = scenario.split(/[\\/]/).pop();
  return { type: "hawser", request: "launch", name: `Debug ${name}`, scenario, stopOnEntry: true };
}

module.exports = { commandLine, debugCommand, debugConfiguration, serverCommand };
