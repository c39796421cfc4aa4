// The extension: a client of `hawser lsp`, and commands that run `hawser` in a terminal or the debugger.

"use strict";

const vscode = require("vscode");
const { LanguageClient, TransportKind } = require("vscode-languageclient/node");

const { commandLine, debugConfiguration, debugCommand, serverCommand } = require("./commands");

let client;

/** The command that the user chose. */
function hawser() {
  return vscode.workspace.getConfiguration("hawser").get("path", "hawser");
}

/** The file that a code lens names, or the active one. */
function file(argument) {
  return typeof argument === "string" ? argument : vscode.window.activeTextEditor?.document.uri.fsPath;
}

function inTerminal(subcommand, path) {
  if (path) {
    const terminal = vscode.window.createTerminal({ name: `hawser ${subcommand}` });
    terminal.show();
    terminal.sendText(commandLine(hawser(), subcommand, path, process.platform));
  }
}

async function startClient() {
  const { command, args } = serverCommand(hawser());
  const serverOptions = { command, args, transport: TransportKind.stdio };
  const clientOptions = { documentSelector: [{ language: "mtp" }] };
  client = new LanguageClient("hawser", "Hawser", serverOptions, clientOptions);
  try {
    await client.start();
  } catch (error) {
    const where = "Set hawser.path to the command, or install it: docs/editors.md.";
    vscode.window.showErrorMessage(`\`${command} lsp\` does not run: ${error.message ?? error}. ${where}`);
  }
}

async function activate(context) {
  const commands = {
    "hawser.simulate": (path) => inTerminal("sim run", file(path)),
    "hawser.swarm": (path) => inTerminal("sim swarm", file(path)),
    "hawser.debug": (path) => {
      const scenario = file(path);
      return scenario && vscode.debug.startDebugging(undefined, debugConfiguration(scenario));
    },
    "hawser.restart": async () => {
      await client?.stop().catch(() => {});
      await startClient();
    },
  };
  for (const [name, run] of Object.entries(commands)) {
    context.subscriptions.push(vscode.commands.registerCommand(name, run));
  }
  context.subscriptions.push(
    vscode.debug.registerDebugAdapterDescriptorFactory("hawser", {
      createDebugAdapterDescriptor() {
        const { command, args } = debugCommand(hawser());
        return new vscode.DebugAdapterExecutable(command, args);
      },
    }),
  );
  await startClient();
}

function deactivate() {
  return client?.stop();
}

module.exports = { activate, deactivate };
