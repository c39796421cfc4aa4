-- The common part of all programs' dissectors. It reads a packet in the same way as the program's own parser.
-- It shows every error, and compares every position with the packet's end before it reads.

local proto = Proto(program.name, program.title)
local nodes = {}   -- by blueprint: its Wireshark fields
local fields = {}  -- all of them

local function added(field)
    fields[#fields + 1] = field
    return field
end

local function identifier(name)
    return (name:lower():gsub("[^a-z0-9_]", "_"))
end

-- An unused name for filters: names of headers may differ only in the case of their letters.
local taken = {}
local function own_name(path)
    while taken[path] do path = path .. "_" end
    taken[path] = true
    return path
end

-- The Wireshark field for a number of `bits` bits.
local function number_field(path, field)
    local bits, names = field.bits, nil
    if field.t == "bool" then return ProtoField.bool(path, field.name) end
    if field.t == "enum" then names = program.enums[field.enum] end
    local form = (field.sum or field.crc) and base.HEX or base.DEC
    local signed = field.t == "int" and bits <= 32
    if bits <= 8 then return (signed and ProtoField.int8 or ProtoField.uint8)(path, field.name, form, names) end
    if bits <= 16 then return (signed and ProtoField.int16 or ProtoField.uint16)(path, field.name, form, names) end
    if bits <= 32 then return (signed and ProtoField.int32 or ProtoField.uint32)(path, field.name, form, names) end
    return ProtoField.uint64(path, field.name, form)
end

local function wireshark_field(path, field)
    if field.k == "bits" then return number_field(path, field) end
    if field.k == "varint" then return ProtoField.uint64(path, field.name, base.DEC) end
    if field.k == "bytes" and field.address then
        return (field.len == 4 and ProtoField.ipv4 or ProtoField.ipv6)(path, field.name)
    end
    if field.k == "bytes" or field.k == "opaque" then return ProtoField.bytes(path, field.name) end
    return ProtoField.none(path, field.name)
end

for index, blueprint in ipairs(program.blueprints) do
    local path = own_name(program.name .. "." .. identifier(blueprint.name))
    local node = { self = added(ProtoField.none(path, blueprint.name)) }
    for _, part in ipairs({ blueprint.fields, blueprint.trailer }) do
        for _, field in ipairs(part) do
            local own = own_name(path .. "." .. identifier(field.name))
            node[field] = added(wireshark_field(own, field))
            if field.t == "seq" and field.bits <= 32 then
                node["relative " .. field.name] = added(ProtoField.uint32(own .. ".relative", field.name .. " (relative)"))
            end
            if field.sum then
                node["status " .. field.name] = added(ProtoField.string(own .. ".status", field.name .. " status"))
            end
            if field.crc then
                node["crc status"] = added(ProtoField.string(own .. ".status", field.name .. " status"))
            end
        end
    end
    nodes[index] = node
end
local payload_field = added(ProtoField.bytes(own_name(program.name .. ".data"), "data"))
local length_field = added(ProtoField.uint32(own_name(program.name .. ".data.len"), "data length"))
local unknown_field = added(ProtoField.bytes(own_name(program.name .. ".unknown_option"), "unknown option"))
proto.fields = fields

local malformed = ProtoExpert.new(program.name .. ".malformed", "Malformed", expert.group.MALFORMED, expert.severity.ERROR)
local wrong_sum = ProtoExpert.new(program.name .. ".checksum", "Bad checksum", expert.group.CHECKSUM, expert.severity.ERROR)
proto.experts = { malformed, wrong_sum }

local function complain(tree, what, text)
    if tree then tree:add_proto_expert_info(what, text) end
end

-- A number of up to 64 bits at a bit offset of the packet, for Wireshark; and as a Lua number.
local function number(tvb, bit, bits, little)
    local first = math.floor(bit / 8)
    local range = tvb(first, math.ceil((bit + bits) / 8) - first)
    local value
    if not little then value = range:bitfield(bit % 8, bits)
    elseif bits <= 32 then value = range:le_uint()
    else value = range:le_uint64() end
    if type(value) == "number" then return value, value end
    return value, value:tonumber()
end

-- A header's own branch of the tree; its length is set once it is known.
local function branch(tree, node, tvb, pos, name)
    return tree:add(node.self, tvb(pos, 0)):set_text(name)
end

local header -- defined below: headers are nested

local function add_number(tvb, bit, field, tree, node)
    local shown, value = number(tvb, bit, field.bits, field.little)
    if field.t == "int" and field.bits <= 32 and value >= 2 ^ (field.bits - 1) then
        value = value - 2 ^ field.bits
        shown = value
    end
    if tree then
        local first = math.floor(bit / 8)
        local range = tvb(first, math.ceil((bit + field.bits) / 8) - first)
        if field.t == "bool" then tree:add(node[field], range, shown ~= 0) else tree:add(node[field], range, shown) end
    end
    return value
end

-- RFC 9000, section 16. Returns nil if the packet ends too early.
local function add_varint(tvb, pos, stop, field, tree, node)
    if pos >= stop then return nil end
    local len = 2 ^ math.floor(tvb(pos, 1):uint() / 64)
    if pos + len > stop then return nil end
    local shown, value = number(tvb, pos * 8 + 2, len * 8 - 2)
    if type(shown) == "number" then shown = UInt64(shown) end
    if tree then tree:add(node[field], tvb(pos, len), shown) end
    return len, value
end

-- Checks whether each computed field has the right value.
local function verify(blueprint, m, at, facts, tree)
    local all = true
    for _, field in ipairs(blueprint.fields) do
        if field.value and field.bits <= 52 then
            local expected = field.value(m, at, facts) % 2 ^ field.bits
            if (m[at + field.at] or 0) % 2 ^ field.bits ~= expected then
                complain(tree, malformed, field.name .. " ought to be " .. string.format("%.0f", expected))
                all = false
            end
        end
    end
    return all
end

-- A header inside a header, which may have conditions of its own. Returns its length, or nil.
local function nested(index, tvb, pos, stop, tree, m, at, name)
    local item = tree and branch(tree, nodes[index], tvb, pos, name)
    local len, why = header(index, tvb, pos, stop, item, m, at)
    if not len then return nil, why end
    if item and len > 0 then item:set_len(len) end
    verify(program.blueprints[index], m, at, { total = len, header = len, data = 0 }, item)
    return len
end

local function selects(member, tvb, pos, stop)
    for _, constant in ipairs(member.constants) do
        local bit = pos * 8 + constant.at
        if bit + constant.bits > stop * 8 then return false end
        local _, value = number(tvb, bit, constant.bits)
        if value ~= constant.value then return false end
    end
    return true
end

local function selected(list, tvb, pos, stop)
    for _, member in ipairs(list.members) do
        if selects(member, tvb, pos, stop) then return member end
    end
end

-- The options of an area. Unknown or invalid options are skipped by their length, if options have one.
local function options(list, cap, tvb, pos, stop, tree)
    local count = 0
    while pos < stop do
        local member = selected(list, tvb, pos, stop)
        if member and member.ends then break end
        local blueprint = member and program.blueprints[member.blueprint]
        if list.length_at == nil then
            if not member or count == cap then return nil, "an unknown frame" end
            local len, why = nested(member.blueprint, tvb, pos, stop, tree, {}, 0, member.name)
            if not len then return nil, why end
            if blueprint.data then len = stop - pos end
            if len == 0 then return nil, "an empty frame" end
            pos, count = pos + len, count + 1
        elseif blueprint and blueprint.static and blueprint.static >= 1 and blueprint.static <= list.length_at then
            nested(member.blueprint, tvb, pos, stop, tree, {}, 0, member.name)
            pos = pos + blueprint.static
        else
            if pos + list.length_at >= stop then break end
            local len = tvb(pos + list.length_at, 1):uint()
            if len <= list.length_at or pos + len > stop then break end
            local used = member and nested(member.blueprint, tvb, pos, pos + len, tree, {}, 0, member.name)
            if used ~= len and tree then tree:add(unknown_field, tvb(pos, len)) end
            pos, count = pos + len, count + 1
        end
    end
    return true
end

-- Reads one field at a bit offset; returns the number of its bits, or nil and the reason.
local function read(field, tvb, bit, stop, tree, node, m, at)
    local pos = math.ceil(bit / 8)
    if field.k == "bits" then
        if bit + field.bits > stop * 8 then return nil, "too short" end
        m[at + field.at] = add_number(tvb, bit, field, tree, node)
        return field.bits
    elseif field.k == "varint" then
        local len, value = add_varint(tvb, pos, stop, field, tree, node)
        if not len then return nil, "too short" end
        m[at + field.at] = value
        return len * 8
    elseif field.k == "bytes" then
        if pos + field.len > stop then return nil, "too short" end
        if tree and field.len > 0 then tree:add(node[field], tvb(pos, field.len)) end
        return field.len * 8
    elseif field.k == "opaque" then
        local len = m[at + field.count_at] or 0
        if len > field.cap then return nil, "more bytes than a field holds" end
        if pos + len > stop then return nil, "too short" end
        if tree and len > 0 then tree:add(node[field], tvb(pos, len)) end
        return len * 8
    elseif field.k == "nested" then
        if field.when and field.when(m, at, { total = 0, header = 0, data = 0 }) == 0 then return 0 end
        local len, why = nested(field.blueprint, tvb, pos, stop, tree, m, at + field.at, field.name)
        return len and len * 8, why
    elseif field.k == "repeat" then
        local count = m[at + field.count_at] or 0
        if count > field.cap then return nil, "more elements than its list holds" end
        local from = pos
        for _ = 1, count do
            local len, why = nested(field.blueprint, tvb, pos, stop, tree, {}, 0, field.name)
            if not len then return nil, why end
            pos = pos + len
        end
        return (pos - from) * 8
    end
    return 0 -- options wait for the header's end
end

-- Reads a header, shows it, and returns its length; or nil and the reason.
function header(index, tvb, pos, stop, tree, m, at)
    local blueprint, node, bit = program.blueprints[index], nodes[index], pos * 8
    local announced, area
    for _, field in ipairs(blueprint.fields) do
        local bits, why = read(field, tvb, bit, stop, tree, node, m, at)
        if not bits then return nil, why end
        bit = bit + bits
        if field.words then announced = m[at + field.at] * 4 end
        if field.k == "options" then area = field end
    end
    local fixed = math.ceil(bit / 8) - pos
    local limit = announced or stop - pos
    if limit < fixed or pos + limit > stop then return nil, "a length that cannot be" end
    if not area then return announced or fixed end
    local list, finish = program.lists[area.list], limit
    if list.len then finish = fixed + list.len(m, at, { total = 0, header = 0, data = 0 }) end
    if finish < fixed or finish > limit then return nil, "a length that cannot be" end
    local read_all, why = options(list, area.cap, tvb, pos + fixed, pos + finish, tree)
    if not read_all then return nil, why end
    return announced or finish
end

-- A packet's end by its IP header: the length field, the header's distance before it, and the bytes that the
-- length excludes.
local ends = { { Field.new("ip.len"), 2, 0 }, { Field.new("ipv6.plen"), 4, 40 } }

-- Returns whether a packet has fewer bytes than its IP header states: a switch has trimmed it.
local function is_cut(tvb)
    for _, by in ipairs(ends) do
        local found = { by[1]() }
        local length = found[#found]
        if length and length.offset - by[2] + by[3] + length.value > tvb:offset() + tvb:len() then return true end
    end
    return false
end

local sources = { Field.new("ip.src"), Field.new("ipv6.src") }
local destinations = { Field.new("ip.dst"), Field.new("ipv6.dst") }

local function innermost(extractors)
    for _, extractor in ipairs(extractors) do
        local found = { extractor() }
        if #found > 0 then return found[#found].range end
    end
end

-- The Internet checksum (RFC 1071) of bytes, 0 if they are correct; nil if it cannot be computed.
local function internet_sum(tvb, pos, stop, pseudo, protocol)
    local sum = 0
    local function add(range)
        local len = range:len()
        for at = 0, len - 2, 2 do sum = sum + range(at, 2):uint() end
        if len % 2 == 1 then sum = sum + range(len - 1, 1):uint() * 256 end
    end
    if pseudo then
        local from, to = innermost(sources), innermost(destinations)
        if not from or not to then return nil end
        add(from)
        add(to)
        sum = sum + protocol + (stop - pos)
    end
    if stop > pos then add(tvb(pos, stop - pos)) end
    while sum > 0xffff do sum = sum % 0x10000 + math.floor(sum / 0x10000) end
    return 0xffff - sum
end

-- Verifies the checksums of a header; returns false if one is wrong.
local function verify_sums(blueprint, node, tvb, pos, stop, protocol, is_whole, tree)
    local right = true
    for _, field in ipairs(blueprint.fields) do
        if field.sum then
            local sum = is_whole and internet_sum(tvb, pos, stop, field.pseudo, protocol)
            local status = not sum and "unverified" or sum == 0 and "good" or "bad"
            if tree then tree:add(node["status " .. field.name], tvb(pos, 0), status):set_generated() end
            if status == "bad" then
                complain(tree, wrong_sum, field.name .. " does not match")
                right = false
            end
        end
    end
    return right
end

local crcs = {} -- CRC-32 (IEEE 802.3) of each byte
for byte = 0, 255 do
    local crc = byte
    for _ = 1, 8 do
        local is_odd = crc % 2 == 1
        crc = math.floor(crc / 2)
        if is_odd then crc = bit32.bxor(crc, 0xedb88320) end
    end
    crcs[byte] = crc
end

-- Continues a CRC-32 with bytes. `ones`: the bits that count as ones, by position; `skipped`: four zero bytes there.
local function crc_of(crc, range, ones, skipped)
    local bytes = range:bytes()
    for at = 0, bytes:len() - 1 do
        local byte = bit32.bor(bytes:get_index(at), ones[at] or 0)
        if skipped and at >= skipped and at < skipped + 4 then byte = 0 end
        crc = bit32.bxor(crcs[bit32.band(bit32.bxor(crc, byte), 0xff)], math.floor(crc / 256))
    end
    return crc
end

-- Fields before a packet that routers change count as ones, by position: in IPv4 TOS, TTL and checksum, in
-- IPv6 traffic class, flow label and hop limit, in UDP the checksum.
local in_front = {
    { Field.new("ip"), { [1] = 0xff, [8] = 0xff, [10] = 0xff, [11] = 0xff } },
    { Field.new("ipv6"), { [0] = 0x0f, [1] = 0xff, [2] = 0xff, [3] = 0xff, [7] = 0xff } },
}
local udp_header = Field.new("udp")

-- The invariant CRC of the preceding headers, with eight bytes of ones for InfiniBand's own (annex A17 of its
-- architecture); nil if they are unknown.
local function crc_in_front(parser)
    local crc = crc_of(0xffffffff, ByteArray.new("ffffffffffffffff"):tvb("link")(), {})
    local udp = innermost({ udp_header })
    for _, by in ipairs(in_front) do
        local network = innermost({ by[1] })
        if network and (udp or parser.table ~= "udp.port") then
            crc = crc_of(crc, network, by[2])
            if udp then crc = crc_of(crc, udp(0, 8), { [6] = 0xff, [7] = 0xff }) end
            return crc
        end
    end
end

-- Verifies the CRC of a header, from `pos` to `stop` with all later bytes; returns false if it is wrong.
local function verify_crc(blueprint, node, parser, tvb, pos, stop, is_whole, tree)
    local field = blueprint.crc
    if not field then return true end
    local ones = {}
    for _, part in ipairs(field.masked) do
        for bit = part[1], part[1] + part[2] - 1 do
            local at = math.floor(bit / 8)
            ones[at] = bit32.bor(ones[at] or 0, 2 ^ (7 - bit % 8))
        end
    end
    local at = field.at and pos + field.at / 8 or stop - 4
    local crc = 0xffffffff
    if field.invariant then crc = crc_in_front(parser) end
    local status = "unverified"
    if is_whole and crc then
        crc = crc_of(crc, tvb(pos, (field.at and stop or at) - pos), ones, field.at and field.at / 8)
        local found = field.invariant and tvb(at, 4):le_uint() or tvb(at, 4):uint()
        status = bit32.bxor(crc, 0xffffffff) == found and "good" or "bad"
    end
    if tree then tree:add(node["crc status"], tvb(at, 4), status):set_generated() end
    if status == "bad" then complain(tree, wrong_sum, "the CRC does not match") end
    return status ~= "bad"
end

local bases = {} -- by direction and field: the first number seen

function proto.init() bases = {} end

-- The names of both directions of a packet's connection.
local function directions(parser, pinfo, m)
    local own, other = {}, {}
    for at, place in ipairs(parser.key) do
        own[at] = tostring(m[place] or 0)
        other[#parser.key + 1 - at] = own[at]
    end
    local from, to = tostring(pinfo.net_src), tostring(pinfo.net_dst)
    return from .. ">" .. to .. ":" .. table.concat(own, ","), to .. ">" .. from .. ":" .. table.concat(other, ",")
end

-- Wrapping numbers, relative to the first of their direction; answering ones, to the other direction's.
local function relative(blueprint, node, parser, tvb, pos, pinfo, tree, m, at)
    local own, other = directions(parser, pinfo, m)
    for _, field in ipairs(blueprint.fields) do
        if field.t == "seq" and field.bits <= 32 then
            local counted = blueprint.sequence or field.at
            local answers = field.at ~= counted
            local key = (answers and other or own) .. "/" .. counted
            local value = m[at + field.at]
            if not answers and bases[key] == nil and not pinfo.visited then bases[key] = value end
            if bases[key] and tree then
                local shown = (value - bases[key]) % 2 ^ field.bits
                tree:add(node["relative " .. field.name], tvb(pos, 0), shown):set_generated()
            end
        end
    end
end

-- The description of a header in the list of packets.
local function summary(blueprint, m, at)
    local words, flags = {}, {}
    for _, field in ipairs(blueprint.fields) do
        local value = field.k == "bits" and m[at + field.at]
        if value and field.t == "enum" then
            words[#words + 1] = (program.enums[field.enum] or {})[value] or tostring(value)
        elseif value and field.t == "bool" then
            if value ~= 0 then flags[#flags + 1] = field.name end
        elseif value and field.t == "seq" then
            words[#words + 1] = field.name .. "=" .. string.format("%.0f", value)
        end
    end
    if #flags > 0 then table.insert(words, 1, "[" .. table.concat(flags, ", ") .. "]") end
    return table.concat(words, " ")
end

-- Reads a packet as its parser does. Returns true if all of it is correct.
local function dissect(parser, tvb, pinfo, tree)
    local m, pos, stop, right, info = {}, 0, tvb:len(), true, {}
    local was_cut = is_cut(tvb)
    local is_whole = tvb:len() == tvb:reported_len() and not was_cut
    local protocol = parser.table == "ip.proto" and parser.number or 17
    for _, step in ipairs(parser.headers) do
        if step.when(m) then
            local blueprint, node = program.blueprints[step.blueprint], nodes[step.blueprint]
            local trailer = 0
            for _, field in ipairs(blueprint.trailer) do trailer = trailer + (field.bits or (field.len or 0) * 8) end
            trailer = math.ceil(trailer / 8)
            local item = tree and branch(tree, node, tvb, pos, blueprint.name)
            local len, why = header(step.blueprint, tvb, pos, stop - trailer, item, m, step.at)
            if len then
                -- Bytes of the trailer that a field of the header counts.
                for _, field in ipairs(blueprint.trailer) do
                    if field.k == "opaque" then trailer = trailer + (m[step.at + field.count_at] or 0) end
                end
                if pos + len + trailer > stop then len, why = nil, "too short" end
            end
            if step.found then m[step.found] = len and 1 or 0 end
            if len then
                if item and len > 0 then item:set_len(len) end
                local facts = { total = stop - pos, header = len, data = stop - pos - len - trailer }
                local bit = (stop - trailer) * 8
                for _, field in ipairs(blueprint.trailer) do
                    bit = bit + (read(field, tvb, bit, stop, item, node, m, step.at) or 0)
                end
                right = verify(blueprint, m, step.at, facts, item) and right
                right = verify_sums(blueprint, node, tvb, pos, stop, protocol, is_whole, item) and right
                right = verify_crc(blueprint, node, parser, tvb, pos, stop, is_whole, item) and right
                relative(blueprint, node, parser, tvb, pos, pinfo, item, m, step.at)
                info[#info + 1] = summary(blueprint, m, step.at)
                pos, stop = pos + len, stop - trailer
            elseif not step.optional then
                complain(item or tree, malformed, blueprint.name .. ": " .. (why or "malformed"))
                return false
            end
        end
    end
    if tree then
        tree:add(length_field, tvb(pos, 0), stop - pos):set_generated()
        if stop > pos then tree:add(payload_field, tvb(pos, stop - pos)) end
        pinfo.cols.protocol = program.title
        pinfo.cols.info = table.concat(info, " ") .. " len=" .. (stop - pos) .. (was_cut and " cut" or "")
    end
    return right
end

local function parser_of(pinfo)
    for _, parser in ipairs(program.parsers) do
        if parser.number == pinfo.match_uint then return parser end
    end
    return program.parsers[1]
end

function proto.dissector(tvb, pinfo, tree)
    if tvb:len() == 0 then return 0 end
    dissect(parser_of(pinfo), tvb, pinfo, tree:add(proto, tvb()))
    return tvb:len()
end

-- If another dissector has a number already, "Decode As" gives it to this one: tshark -d ip.proto==6,mtp_tcp.
for _, parser in ipairs(program.parsers) do
    local numbers = DissectorTable.get(parser.table)
    if numbers:get_dissector(parser.number) then numbers:add_for_decode_as(proto) else numbers:add(parser.number, proto) end
end

-- Over UDP, the port may differ: a packet that is entirely valid then counts as one of the program's.
for _, parser in ipairs(program.parsers) do
    if parser.table == "udp.port" then
        proto:register_heuristic("udp", function(tvb, pinfo, tree)
            if tvb:len() == 0 or not dissect(parser, tvb, pinfo, nil) then return false end
            dissect(parser, tvb, pinfo, tree:add(proto, tvb()))
            return true
        end)
    end
end
