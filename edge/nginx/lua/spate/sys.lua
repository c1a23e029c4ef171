-- Operating system calls and nginx functions that the other files reach through LuaJIT's FFI. Linux, little-endian only:
-- available() says whether this machine qualifies. Nothing here ever blocks: sockets are non-blocking, every send and
-- receive carries MSG_DONTWAIT. The one exception is wait(), for a worker that is about to exit.

local ffi = require "ffi"
local base = require "resty.core.base"
require "resty.core.var"
require "resty.core.misc"
require "resty.core.request"
require "resty.core.ctx"

local C = ffi.C
local floor = math.floor

ffi.cdef [[
typedef struct { uint16_t family; char path[108]; } spate_sockaddr_un;
typedef struct { int64_t sec; int64_t nsec; } spate_timespec;
typedef struct { int fd; int16_t events; int16_t revents; } spate_pollfd;
typedef struct { size_t len; const unsigned char *data; } spate_str;
/* nginx's ngx_http_variable_value_t: 28 bits of length, then the bits valid, no_cacheable, not_found, escape. */
typedef struct { int32_t bits; uint32_t hole; const unsigned char *data; } spate_value;

int socket(int domain, int type, int protocol);
int connect(int fd, const void *addr, unsigned int len);
intptr_t send(int fd, const void *buf, size_t len, int flags);
intptr_t recv(int fd, void *buf, size_t len, int flags);
int close(int fd);
int poll(void *fds, unsigned long n, int timeout);
int clock_gettime(int clock, void *ts);
int inet_pton(int family, const char *src, void *dst);
void *memchr(const void *s, int c, size_t n);
void *malloc(size_t n);
char *strerror(int errnum);

spate_value *ngx_http_get_variable(void *r, spate_str *name, uintptr_t key);
typedef int (*spate_get)(void *r, spate_value *v, uintptr_t data);
intptr_t ngx_atoi(const unsigned char *line, size_t n);
]]

local M = { request = base.get_request }

local AF_UNIX, AF_INET, AF_INET6 = 1, 2, 10
local SOCK_STREAM, SOCK_NONBLOCK, SOCK_CLOEXEC = 1, 0x800, 0x80000
local MSG_DONTWAIT, MSG_NOSIGNAL = 0x40, 0x4000
local EINTR, EAGAIN = 4, 11
local POLLIN, POLLOUT = 1, 4
local CLOCK_REALTIME, CLOCK_MONOTONIC = 0, 1

-- available returns true, or nil and the reason why the module cannot work on this machine.
function M.available()
  if ffi.os ~= "Linux" or (ffi.arch ~= "x64" and ffi.arch ~= "arm64") then
    return nil, "needs Linux on amd64 or arm64, this is " .. ffi.os .. " on " .. ffi.arch
  end
  if not pcall(function() return C.ngx_http_lua_ffi_var_get end) then
    return nil, "this build of the nginx Lua module has no FFI interface"
  end
  return true
end

-- exported says whether the nginx binary lets us call one of its functions.
function M.exported(name)
  return (pcall(function() return C[name] end))
end

local ts = ffi.new("spate_timespec")

-- monotonic is a clock in seconds that no clock step moves.
function M.monotonic()
  C.clock_gettime(CLOCK_MONOTONIC, ts)
  return tonumber(ts.sec) + tonumber(ts.nsec) / 1e9
end

-- now_us gives whole seconds and the microseconds in that second, of the wall clock.
function M.now_us()
  C.clock_gettime(CLOCK_REALTIME, ts)
  return tonumber(ts.sec), floor(tonumber(ts.nsec) / 1000)
end

local function fail(what)
  return nil, what .. ": " .. ffi.string(C.strerror(ffi.errno()))
end

-- connect opens a stream to the unix socket at path; it gives a descriptor, or nil and the reason.
function M.connect(path)
  local addr = ffi.new("spate_sockaddr_un")
  addr.family = AF_UNIX
  ffi.copy(addr.path, path)
  local fd = C.socket(AF_UNIX, SOCK_STREAM + SOCK_NONBLOCK + SOCK_CLOEXEC, 0)
  if fd < 0 then
    return fail("socket")
  end
  if C.connect(fd, addr, 2 + #path + 1) ~= 0 then
    local _, err = fail("connect to " .. path)
    C.close(fd)
    return nil, err
  end
  return fd
end

function M.close(fd)
  C.close(fd)
end

-- send gives the bytes taken, 0 when the socket takes none now, or nil and the reason.
function M.send(fd, from, n)
  local got = tonumber(C.send(fd, from, n, MSG_DONTWAIT + MSG_NOSIGNAL))
  if got >= 0 then
    return got
  end
  local errno = ffi.errno()
  if errno == EAGAIN or errno == EINTR then
    return 0
  end
  return fail("send")
end

-- recv gives the bytes read, 0 when there are none now, or nil and the reason.
function M.recv(fd, into, n)
  local got = tonumber(C.recv(fd, into, n, MSG_DONTWAIT))
  if got > 0 then
    return got
  end
  if got == 0 then
    return nil, "closed by the forwarder"
  end
  local errno = ffi.errno()
  if errno == EAGAIN or errno == EINTR then
    return 0
  end
  return fail("receive")
end

-- wait blocks until fd can be read (or written, when asked) or the time is over. fd may be nil: then it just sleeps.
function M.wait(fd, writable, milliseconds)
  if not fd then
    C.poll(nil, 0, milliseconds)
    return
  end
  local p = ffi.new("spate_pollfd[1]")
  p[0].fd, p[0].events = fd, POLLIN + (writable and POLLOUT or 0)
  C.poll(p, 1, milliseconds)
end

local text = ffi.new("char[64]")

-- address turns an address in text form (n bytes at p) into 4 or 16 bytes at out and gives their number, 0 when it is none.
function M.address(p, n, out)
  if n < 2 or n > 45 then
    return 0
  end
  ffi.copy(text, p, n)
  text[n] = 0
  if C.inet_pton(AF_INET, text, out) == 1 then
    return 4
  end
  if C.inet_pton(AF_INET6, text, out) == 1 then
    return 16
  end
  return 0
end

-- random gives n bytes as a string.
function M.random(n)
  local f = io.open("/dev/urandom", "rb")
  local s = f and f:read(n)
  if f then
    f:close()
  end
  if s and #s == n then
    return s
  end
  return nil, "read /dev/urandom"
end

return M
