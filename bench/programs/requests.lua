-- What wrk asks the web application for: lists, JSON, searches, with changing numbers; the same sequence for everybody.
-- SPDX-License-Identifier: BSD-2-Clause
local count = 0
local paths = { "/list?", "/json?", "/list?", "/search?", "/json?" }
request = function()
    count = count + 1
    return wrk.format("GET", paths[count % #paths + 1] .. (count * 7919) % 2000)
end
