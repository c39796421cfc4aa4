-- Performs a user's actions in Neovim, and writes the observed results, as JSON, into the file $SEEN.
-- The working folder has copies of TCP (tcp/) and of an example with its scenario.

local seen = {}

local function finish()
  vim.fn.writefile({ vim.fn.json_encode(seen) }, vim.env.SEEN)
  vim.cmd("qall!")
end

-- Waits until a condition holds; a condition that never holds ends the run.
local function await(what, condition)
  if not vim.wait(60000, condition, 20) then
    seen.failed = "waited for " .. what
    finish()
  end
end

-- Puts the cursor at the first occurrence of a text in this buffer.
local function go_to(text)
  vim.api.nvim_win_set_cursor(0, { 1, 0 })
  assert(vim.fn.search("\\V" .. text, "c") > 0, text)
end

local function messages()
  return vim.tbl_map(function(found) return found.message end, vim.diagnostic.get(0))
end

local function floating()
  for _, window in ipairs(vim.api.nvim_list_wins()) do
    if vim.api.nvim_win_get_config(window).relative ~= "" then return window end
  end
end

local function all_clients()
  return (vim.lsp.get_clients or vim.lsp.get_active_clients)()
end

local function run()
  seen.version = vim.version().minor
  vim.cmd("edit tcp/recovery.mtp")
  seen.filetype = vim.bo.filetype
  await("the server", function() return #all_clients() > 0 and all_clients()[1].server_capabilities end)

  -- An error, and its removal.
  go_to("uint64 ")
  seen.mistake_line = vim.fn.line(".")
  vim.cmd("normal! ciwuint65")
  await("a diagnostic", function() return #messages() > 0 end)
  seen.mistake = vim.diagnostic.get(0)[1].message
  seen.shown_line = vim.diagnostic.get(0)[1].lnum + 1
  vim.cmd("undo")
  await("no diagnostic", function() return #messages() == 0 end)

  -- A hover.
  vim.cmd("edit tcp/cookies.mtp")
  go_to("h.seq")
  vim.cmd("normal! ll")
  vim.lsp.buf.hover()
  await("a hover", floating)
  seen.hover = table.concat(vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(floating()), 0, -1, false), "\n")
  vim.api.nvim_win_close(floating(), true)

  -- A definition, in another file.
  vim.lsp.buf.definition()
  await("another file", function() return vim.fn.expand("%:t") == "header.mtp" end)
  seen.definition = vim.fn.getline(".")
  seen.column = vim.fn.col(".")

  -- A new name, in all files.
  vim.cmd("edit tcp/input.mtp")
  go_to("snd_wl1")
  vim.lsp.buf.rename("window_from")
  await("the new name", function() return vim.fn.search("window_from", "nw") > 0 end)
  seen.renamed = {}
  for _, buffer in ipairs(vim.api.nvim_list_bufs()) do
    local text = table.concat(vim.api.nvim_buf_get_lines(buffer, 0, -1, false), "\n")
    local _, count = text:gsub("window_from", "")
    if count > 0 then seen.renamed[vim.fn.fnamemodify(vim.api.nvim_buf_get_name(buffer), ":t")] = count end
  end
  await("no mistake after the new name", function() return #messages() == 0 end)

  -- The code lenses above `deploy`.
  vim.cmd("edit! stop-and-wait.mtp")
  go_to("deploy {")
  local line = vim.fn.line(".") - 1
  await("lenses", function()
    vim.lsp.codelens.refresh()
    vim.wait(100)
    return #vim.tbl_filter(function(lens) return lens.range.start.line == line and lens.command end, vim.lsp.codelens.get(0)) > 0
  end)
  vim.ui.select = function(choices, _, choose) choose(choices[1], 1) end
  vim.lsp.codelens.run()
  await("a run", function()
    if vim.bo.buftype ~= "terminal" then return false end
    seen.run = table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), "\n")
    return seen.run:find("Process exited")
  end)
  seen.command = vim.api.nvim_buf_get_name(0)

  -- The grammar, and its colours.
  vim.cmd("edit! stop-and-wait.mtp")
  local root = vim.treesitter.get_parser(0, "mtp"):parse()[1]:root()
  local get = vim.treesitter.query.get or vim.treesitter.query.get_query
  local colours = {}
  local query = get("mtp", "highlights")
  for id, node in query:iter_captures(root, 0, 0, -1) do
    local first_row, first, last_row, last = node:range()
    if first_row == last_row then
      local line = vim.api.nvim_buf_get_lines(0, first_row, first_row + 1, false)[1]
      colours[line:sub(first + 1, last)] = query.captures[id]
    end
  end
  seen.grammar = { is_wrong = root:has_error(), event = colours.sw_timeout, keyword = colours["return"] }
end

local ok, why = pcall(run)
if not ok then seen.failed = tostring(why) end
finish()
