// The extension without VS Code: its manifest, its commands, its first colours, and its language server.
//
// HAWSER is the command; without it, the one built by `cargo build`.

"use strict";

const assert = require("node:assert/strict");
const { execFileSync, spawn, spawnSync } = require("node:child_process");
const fs = require("node:fs");
const path = require("node:path");
const test = require("node:test");

const { commandLine, debugCommand, debugConfiguration, serverCommand } = require("../src/commands");

const extension = path.join(__dirname, "..");
const repository = path.join(extension, "../..");
const hawser = process.env.HAWSER ?? path.join(repository, "target/debug/hawser");
const read = (file) => fs.readFileSync(path.join(extension, file), "utf8");
const manifest = JSON.parse(read("package.json"));
const lock = JSON.parse(read("package-lock.json"));

test("the manifest names files that are there, and what the source registers", () => {
  const { languages, grammars, commands, debuggers } = manifest.contributes;
  for (const file of [manifest.main, languages[0].configuration, grammars[0].path]) {
    assert.ok(fs.existsSync(path.join(extension, file)), file);
  }
  const source = read("src/extension.js");
  for (const { command } of commands) {
    assert.ok(source.includes(`"${command}":`), `${command} is not registered`);
  }
  const registered = [...source.matchAll(/"(hawser\.[a-z]+)":/g)].map((found) => found[1]);
  assert.deepEqual(registered.sort(), commands.map(({ command }) => command).sort());
  assert.ok(source.includes(`registerDebugAdapterDescriptorFactory("${debuggers[0].type}"`));
  assert.equal(lock.packages[""].dependencies["vscode-languageclient"], manifest.dependencies["vscode-languageclient"]);
});

test("a file's name is one word of the shell, whatever is in it", { skip: process.platform === "win32" }, () => {
  for (const name of ["/a/b.toml", "/with space/x.toml", "/it's/$(touch x)/`y`.toml", "/é;rm -rf/z"]) {
    const line = commandLine("printf", "%s|", name, "linux");
    assert.equal(execFileSync("sh", ["-c", line], { encoding: "utf8" }), `${name}|`);
  }
  assert.equal(commandLine("hawser", "sim run", "C:\\it's\\a b.toml", "win32"), "hawser sim run 'C:\\it''s\\a b.toml'");
});

test("a scenario is debugged with the attributes that the manifest declares", () => {
  const configuration = debugConfiguration("/a/my.toml");
  const { launch } = manifest.contributes.debuggers[0].configurationAttributes;
  const general = ["type", "request", "name"];
  const own = Object.keys(configuration).filter((key) => !general.includes(key));
  assert.ok(own.every((key) => key in launch.properties), own.join());
  assert.ok(launch.required.every((key) => key in configuration));
  assert.equal(configuration.scenario, "/a/my.toml");
});

/** The scope of a word by the first rule that matches it, as editors do. */
function scope(grammar, line, word) {
  let at = 0;
  while (at < line.length) {
    let best;
    for (const rule of grammar.patterns) {
      const found = rule.match && [...line.slice(at).matchAll(new RegExp(rule.match, "g"))][0];
      if (found && found[0] && (!best || found.index < best.index)) {
        best = { index: found.index, text: found[0], name: rule.name };
      }
    }
    if (!best) return undefined;
    if (best.text === word || (best.name.startsWith("comment") && best.text.includes(word))) return best.name;
    at += best.index + best.text.length;
  }
  return undefined;
}

test("the first colours know every keyword of the language", () => {
  const grammar = JSON.parse(read("syntaxes/mtp.tmLanguage.json"));
  const token = fs.readFileSync(path.join(repository, "lang/syntax/src/token.rs"), "utf8");
  for (const list of ["ITEM_WORDS", "STATEMENT_WORDS"]) {
    const body = token.slice(token.indexOf(`pub const ${list}`));
    const words = [...body.slice(0, body.indexOf("];")).matchAll(/"([a-z_]+)"/g)].map((found) => found[1]);
    assert.ok(words.length > 10);
    for (const word of words) {
      assert.match(scope(grammar, `${word} x;`, word) ?? "none", /^(keyword|constant\.language)/, word);
    }
  }
  const line = 'param duration_t RTO = 200ms; // said so //= RFC9293 3.10';
  assert.equal(scope(grammar, line, "duration_t"), "storage.type.mtp");
  assert.equal(scope(grammar, line, "RTO"), "constant.other.mtp");
  assert.equal(scope(grammar, line, "200ms"), "constant.numeric.duration.mtp");
  assert.match(scope(grammar, line, "said so"), /^comment/);
});

const absent = { skip: !fs.existsSync(hawser) && `no ${hawser}` };

/** Starts a command, sends messages to it, and returns its answers and its exit code. */
async function conversation({ command, args }, messages) {
  const server = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
  for (const message of messages) {
    const body = JSON.stringify(message);
    server.stdin.write(`Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
  }
  server.stdin.end();
  let said = "";
  server.stdout.setEncoding("utf8").on("data", (piece) => (said += piece));
  const code = await new Promise((resolve) => server.on("close", resolve));
  return { said, code };
}

test("the language server that is started answers a handshake", absent, async () => {
  const { said, code } = await conversation(serverCommand(hawser), [
    { jsonrpc: "2.0", id: 1, method: "initialize", params: { capabilities: {} } },
    { jsonrpc: "2.0", method: "initialized", params: {} },
    { jsonrpc: "2.0", id: 2, method: "shutdown" },
    { jsonrpc: "2.0", method: "exit" },
  ]);
  assert.equal(code, 0);
  assert.ok(said.includes('"completionProvider"') && said.includes('"semanticTokensProvider"'), said);
});

test("the debug adapter that is started launches what the configuration says", absent, async () => {
  const scenario = path.join(repository, "examples/scenarios/stop-and-wait.toml");
  const { name, type, request, ...launch } = debugConfiguration(scenario);
  const { said } = await conversation(debugCommand(hawser), [
    { seq: 1, type: "request", command: "initialize", arguments: { adapterID: type } },
    { seq: 2, type: "request", command: request, arguments: launch },
    { seq: 3, type: "request", command: "configurationDone" },
    { seq: 4, type: "request", command: "disconnect" },
  ]);
  const answers = said.split(/Content-Length: \d+\r\n\r\n/).filter(Boolean).map((body) => JSON.parse(body));
  const launched = answers.find((answer) => answer.type === "response" && answer.command === "launch");
  assert.equal(launched?.success, true, said);
  assert.ok(answers.some((answer) => answer.event === "stopped"), said);
});

test("each command that is run is one of hawser's", absent, () => {
  const source = read("src/extension.js");
  const subcommands = [...source.matchAll(/inTerminal\("([a-z ]+)"/g)].map((found) => found[1].split(" "));
  assert.ok(subcommands.length >= 2);
  const words = (command) => command.args.filter((word) => !word.startsWith("-"));
  for (const subcommand of [...subcommands, words(serverCommand("")), words(debugCommand(""))]) {
    assert.equal(spawnSync(hawser, [...subcommand, "--help"]).status, 0, subcommand);
  }
});
