-- Names for places: the words of a message, its pointers by the names of http.capnp, and the slots of ptr and len, in which
-- the values of the request at hand are while it is written. A slot with the number of a pointer is that text.

local ffi = require "ffi"

local M = {
  -- Of the message, in words.
  DATA_WORDS = 13,
  POINTERS = 25,
  POINTER_WORD = 15, -- where the pointers begin
  IP_WORD = 40, -- where the client's address is; the server's is two words behind
  METHOD_WORD = 44,
  PROTOCOL_WORD = 45,
  CONSTANT_WORD = 47, -- where the constant texts begin
  MAX_MESSAGE = 256 * 1024, -- bytes; event.MaxMessage
  SHORT_TEXT = 8 * 1024, -- event.MaxText: what is left of each text of an event that would be larger
  SLOTS = 46,
}

-- Pointers of the message.
for i, name in ipairs {
  "CLIENT_IP", "SERVER_IP", "HOST", "METHOD", "SCHEME", "PATH", "QUERY", "PROTOCOL", "REFERER", "USER_AGENT", "USER",
  "FORWARDED_FOR", "CONTENT_TYPE", "SSL_PROTOCOL", "SSL_CIPHER", "SSL_NAME", "CLIENT_VERIFY", "ORIGIN", "CACHE", "RAY",
  "SERVER_NAME", "EDGE", "COLO", "LIMIT_REQ", "THREAT",
} do
  M[name] = i - 1
end

-- Slots of values that are not texts of the message.
for i, name in ipairs {
  "REQUEST_BYTES", "SENT", "BODY", "CONNECTION", "REQUESTS", "PORT", "PIPE", "COMPLETION", "UPSTREAM", "RATIO",
  "REQUEST_LINE", "SERVER_ADDR", "SERVER_PORT", "RTT", "REUSED", "U_STATUS", "U_CONNECT", "U_HEADER", "U_TIME", "U_SENT",
  "U_RECEIVED",
} do
  M[name] = M.POINTERS + i - 1
end

M.ptr = ffi.new("const unsigned char *[?]", M.SLOTS)
M.len = ffi.new("int32_t[?]", M.SLOTS)

return M
