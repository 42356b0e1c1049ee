-- An interpreter that parses and optimises (smlng's job in the 2006 paper): reads expressions of a small functional language, folds
-- constants, inlines what is used once, drops what is unused, and writes them again. Usage: optimise.lua FILE ROUNDS
-- SPDX-License-Identifier: BSD-2-Clause
local function tokens_of(text)
    local tokens, at = {}, 1
    while true do
        local from, to, token = text:find("^%s*([%a_][%w_]*)", at)
        if not from then from, to, token = text:find("^%s*(%d+)", at) end
        if not from then from, to, token = text:find("^%s*([%(%)%+%-%*=<>,])", at) end
        if not from then break end
        tokens[#tokens + 1] = token
        at = to + 1
    end
    return tokens
end

local parse

local function parse_atom(state)
    local token = state.tokens[state.at]
    state.at = state.at + 1
    if token == "(" then
        local inner = parse(state)
        state.at = state.at + 1
        return inner
    elseif token == "let" then
        local name = state.tokens[state.at]
        state.at = state.at + 2
        local value = parse(state)
        state.at = state.at + 1
        return { kind = "let", name = name, value = value, body = parse(state) }
    elseif token == "if" then
        local condition = parse(state)
        state.at = state.at + 1
        local yes = parse(state)
        state.at = state.at + 1
        return { kind = "if", condition = condition, yes = yes, no = parse(state) }
    elseif token:match("^%d") then
        return { kind = "number", value = tonumber(token) }
    end
    return { kind = "name", name = token }
end

function parse(state)
    local left = parse_atom(state)
    while true do
        local operator = state.tokens[state.at]
        if operator ~= "+" and operator ~= "-" and operator ~= "*" and operator ~= "<" then return left end
        state.at = state.at + 1
        left = { kind = "binary", operator = operator, left = left, right = parse_atom(state) }
    end
end

local fold = {
    ["+"] = function(a, b) return a + b end,
    ["-"] = function(a, b) return a - b end,
    ["*"] = function(a, b) return (a * b) % 1000003 end,
    ["<"] = function(a, b) return a < b and 1 or 0 end,
}

local function uses(node, name)
    if node.kind == "name" then return node.name == name and 1 or 0 end
    if node.kind == "binary" then return uses(node.left, name) + uses(node.right, name) end
    if node.kind == "if" then return uses(node.condition, name) + uses(node.yes, name) + uses(node.no, name) end
    if node.kind == "let" then return uses(node.value, name) + (node.name == name and 0 or uses(node.body, name)) end
    return 0
end

-- Every pass makes a new tree; the old one is garbage.
local function optimise(node, environment)
    if node.kind == "name" then return environment[node.name] or { kind = "name", name = node.name } end
    if node.kind == "number" then return { kind = "number", value = node.value } end
    if node.kind == "if" then
        local condition = optimise(node.condition, environment)
        if condition.kind == "number" then return optimise(condition.value ~= 0 and node.yes or node.no, environment) end
        return { kind = "if", condition = condition, yes = optimise(node.yes, environment), no = optimise(node.no, environment) }
    end
    if node.kind == "let" then
        local value = optimise(node.value, environment)
        local count = uses(node.body, node.name)
        local inner = setmetatable({ [node.name] = false }, { __index = environment })
        if count == 0 then return optimise(node.body, inner) end
        if count == 1 or value.kind == "number" then
            inner[node.name] = value
            return optimise(node.body, inner)
        end
        return { kind = "let", name = node.name, value = value, body = optimise(node.body, inner) }
    end
    local left, right = optimise(node.left, environment), optimise(node.right, environment)
    if left.kind == "number" and right.kind == "number" then
        return { kind = "number", value = fold[node.operator](left.value, right.value) }
    end
    return { kind = "binary", operator = node.operator, left = left, right = right }
end

local function write(node, out)
    if node.kind == "number" then out[#out + 1] = tostring(node.value)
    elseif node.kind == "name" then out[#out + 1] = node.name
    elseif node.kind == "binary" then
        out[#out + 1] = "(" write(node.left, out) out[#out + 1] = node.operator write(node.right, out) out[#out + 1] = ")"
    elseif node.kind == "if" then
        out[#out + 1] = "if " write(node.condition, out) out[#out + 1] = " then " write(node.yes, out) out[#out + 1] = " else " write(node.no, out)
    else
        out[#out + 1] = "let " .. node.name .. " = " write(node.value, out) out[#out + 1] = " in " write(node.body, out)
    end
end

local file = assert(io.open(arg[1]))
local text = file:read("a")
local total, kept = 0, {}
for round = 1, tonumber(arg[2]) do
    kept = {}
    for line in text:gmatch("[^\n]+") do
        local tree = parse({ tokens = tokens_of(line), at = 1 })
        for _ = 1, 3 do tree = optimise(tree, {}) end
        local out = {}
        write(tree, out)
        kept[#kept + 1] = { tree = tree, text = table.concat(out) }
        total = total + #kept[#kept].text
    end
end
print(#kept, total)
