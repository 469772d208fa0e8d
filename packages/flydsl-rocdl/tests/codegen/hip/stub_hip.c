// A stand-in for libamdhip64: no GPU, every call is recorded. `stub_*` functions are for tests.
// It has what our runtime and the reference system's call; stub_hip.map gives it the versions that
// the latter asks for.
// A call that fails does nothing; it leaves an error that hipGetLastError returns once.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int hipError_t;
enum { kInvalidValue = 1, kNoDevice = 100, kInvalidDevice = 101, kNotFound = 500, kCapture = 900 };

struct record {
  uint64_t function, stream;
  uint32_t grid[3], block[3], cluster[3], lds;
  int32_t device, captured;
  uint64_t size;
  unsigned char kernarg[1024];
};

static struct record last;
static uint64_t launches, loads, unloads;
static int devices = 1, fail_next;
static uint64_t calls, fail_call; // counted for tests that ask for it
static int counting, fail_call_status;
enum kind { kModule, kMemory, kStream, kEvent, kGraph, kExec, kShared, kKinds };
static int64_t live[kKinds];
static __thread int last_error;
static char arch[8][256] = {"gfx942:sramecc+:xnack-"};
static __thread int current;
static __thread int capture_mode;
static int capturing, peers[8][8];
static char last_call[64], failed_call[64];

// Nanoseconds that a launch takes; STUB_LAUNCH_NS for programs that do not call this.
static uint64_t launch_ns;
void stub_launch_time(uint64_t ns) { launch_ns = ns; }
__attribute__((constructor)) static void settings(void) {
  const char *text = getenv("STUB_LAUNCH_NS");
  if (text) launch_ns = strtoull(text, 0, 10);
}
static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
static void spend(void) {
  if (!launch_ns) return;
  uint64_t end = now() + launch_ns;
  while (now() < end) {
  }
}

uint64_t stub_launches(void) { return launches; }
uint64_t stub_loads(void) { return loads; }
uint64_t stub_unloads(void) { return unloads; }
const struct record *stub_last(void) { return &last; }
void stub_devices(int count) { devices = count; }
void stub_arch(int device, const char *name) { strncpy(arch[device], name, 255); }
void stub_fail(int status) { fail_next = status; }
int stub_peer(int a, int b) { return peers[a][b]; }
const char *stub_call(void) { return last_call; }
// Let the call after `count` others, of any function, return `status`.
void stub_fail_after(uint64_t count, int status) {
  counting = 1, calls = 0, fail_call = count + 1, fail_call_status = status;
}
// Calls since then.
uint64_t stub_calls(void) { return calls; }
int64_t stub_live(int kind) { return live[kind]; }
void stub_reset(void) { memset(peers, 0, sizeof peers), memset(live, 0, sizeof live), counting = fail_next = 0; }
const char *stub_failed(void) { return failed_call; }
int stub_capturing(void) { return capturing; }
int stub_capture_mode(void) { return capture_mode; }
int stub_last_error(void) { return last_error; }

static hipError_t fails(int status) {
  if (status) last_error = status;
  return status;
}
static hipError_t enter(const char *name, int recorded) {
  int status = 0;
  if (counting && ++calls == fail_call) {
    status = fail_call_status;
    strncpy(failed_call, name, sizeof failed_call - 1);
  }
  if (recorded) {
    if (!status) status = fail_next;
    fail_next = 0;
    strncpy(last_call, name, sizeof last_call - 1);
  }
  return fails(status);
}
// At the beginning of every function: returns the error that a test asks for.
#define CALL CALL_(1)
#define CALL_(recorded)                    \
  do {                                     \
    int status_ = enter(__func__, recorded); \
    if (status_) return status_;           \
  } while (0)

const char *hipGetErrorName(int e) {
  return e == kNoDevice ? "hipErrorNoDevice" : e == 719 ? "hipErrorLaunchFailure" : "hipErrorUnknown";
}
const char *hipGetErrorString(int e) { return e == 719 ? "unspecified launch failure" : "some error"; }
hipError_t hipGetDeviceCount(int *n) {
  CALL;
  *n = devices;
  return devices ? 0 : fails(kNoDevice);
}
hipError_t hipGetDevice(int *d) { CALL_(0); *d = current; return 0; }
hipError_t hipSetDevice(int d) {
  CALL_(0);
  if (d < 0 || d >= devices) return fails(kInvalidDevice);
  current = d;
  return 0;
}
hipError_t hipGetDevicePropertiesR0600(void *p, int d) {
  CALL;
  if (d < 0 || d >= devices) return fails(kInvalidDevice);
  memset(p, 0, 1472);
  strcpy((char *)p, "AMD Stand-in");
  strcpy((char *)p + 1160, arch[d]);
  return 0;
}
hipError_t hipDeviceSynchronize(void) { CALL; return 0; }
hipError_t hipModuleLoadData(void **m, const void *image) {
  CALL;
  if (memcmp(image, "\177ELF", 4)) return fails(200);
  if (capturing && capture_mode != 2) return fails(kCapture);
  loads++;
  live[kModule]++;
  *m = (void *)(uintptr_t)(0x3000 + current);
  return 0;
}
hipError_t hipModuleUnload(void *m) {
  CALL;
  if (((uintptr_t)m & 7) != (uintptr_t)current) return fails(kInvalidDevice);
  unloads++;
  live[kModule]--;
  return 0;
}
hipError_t hipModuleGetFunction(void **f, void *m, const char *name) {
  CALL;
  uintptr_t sum = 0x20000 + ((uintptr_t)m & 7);
  for (; *name; name++) sum += 8 * (unsigned char)*name;
  *f = (void *)sum;
  return 0;
}
hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int *n, void *f, int block, size_t lds) {
  CALL;
  *n = 2048 / block - (int)(lds >> 16);
  return 0;
}
hipError_t hipThreadExchangeStreamCaptureMode(int *mode) {
  CALL_(0);
  int before = capture_mode;
  capture_mode = *mode;
  *mode = before;
  return 0;
}

static void note(void *f, const unsigned *dims, unsigned lds, void *stream, void **extra) {
  launches++;
  spend();
  memset(&last, 0, sizeof last);
  last.function = (uint64_t)f;
  memcpy(last.grid, dims, 12);
  memcpy(last.block, dims + 3, 12);
  last.lds = lds;
  last.stream = (uint64_t)stream;
  last.device = current;
  last.captured = capturing;
  if (extra && extra[0] == (void *)1 && extra[2] == (void *)2 && extra[4] == (void *)3) {
    last.size = *(size_t *)extra[3];
    memcpy(last.kernarg, extra[1], last.size < 1024 ? last.size : 1024);
  }
}
hipError_t hipModuleLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                 unsigned bz, unsigned lds, void *stream, void **params, void **extra) {
  CALL;
  unsigned dims[6] = {gx, gy, gz, bx, by, bz};
  note(f, dims, lds, stream, extra);
  return 0;
}
struct attribute { unsigned id; char pad[4]; unsigned value[16]; };
struct config { unsigned dims[6], lds; void *stream; struct attribute *attributes; unsigned count; };
hipError_t hipDrvLaunchKernelEx(const struct config *c, void *f, void **params, void **extra) {
  CALL;
  note(f, c->dims, c->lds, c->stream, extra);
  if (c->count == 1 && c->attributes[0].id == 4) memcpy(last.cluster, c->attributes[0].value, 12);
  return 0;
}

hipError_t hipMalloc(void **p, size_t n) { CALL; *p = malloc(n); live[kMemory]++; return 0; }
hipError_t hipFree(void *p) { CALL; free(p); live[kMemory]--; return 0; }
hipError_t hipMemcpy(void *d, const void *s, size_t n, int kind) { CALL; memcpy(d, s, n); return 0; }
hipError_t hipMemcpyAsync(void *d, const void *s, size_t n, int kind, void *st) { CALL; memcpy(d, s, n); return 0; }
hipError_t hipMemset(void *d, int v, size_t n) { CALL; memset(d, v, n); return 0; }
hipError_t hipMemsetD16Async(void *d, unsigned short v, size_t n, void *s) { CALL; return 0; }
hipError_t hipMemsetD32Async(void *d, int v, size_t n, void *s) { CALL; return 0; }
hipError_t hipHostGetDevicePointer(void **d, void *h, unsigned f) { CALL; *d = h; return 0; }
hipError_t hipHostRegister(void *p, size_t n, unsigned f) { CALL; return 0; }
hipError_t hipHostUnregister(void *p) { CALL; return 0; }
hipError_t hipGetLastError(void) {
  int status = last_error;
  last_error = 0;
  return status;
}
hipError_t hipStreamCreate(void **s) { CALL; *s = (void *)0x4100; live[kStream]++; return 0; }
hipError_t hipStreamCreateWithFlags(void **s, unsigned f) { CALL; *s = (void *)(uintptr_t)(0x4000 + f); live[kStream]++; return 0; }
hipError_t hipStreamDestroy(void *s) { CALL; live[kStream]--; return 0; }
static void *synced; // the stream waited for last
static uint64_t launches_then;
void *stub_synced(void) { return synced; }
uint64_t stub_launches_then(void) { return launches_then; }
hipError_t hipStreamSynchronize(void *s) { CALL; synced = s; launches_then = stub_launches(); return 0; }
hipError_t hipStreamWaitEvent(void *s, void *e, unsigned f) { CALL; if (!e) return fails(400); return 0; }
hipError_t hipStreamBeginCapture(void *s, int mode) { CALL; capturing = 1; return 0; }
hipError_t hipStreamEndCapture(void *s, void **g) {
  capturing = 0; // also of a capture that has become invalid
  CALL;
  *g = (void *)0x5000;
  live[kGraph]++;
  return 0;
}
hipError_t hipStreamIsCapturing(void *s, int *status) { CALL; *status = capturing; return 0; }
hipError_t hipGraphInstantiate(void **x, void *g, void *n, char *log, size_t size) { CALL; *x = (void *)0x6000; live[kExec]++; return 0; }
hipError_t hipGraphLaunch(void *x, void *s) { CALL; if (!x) return fails(400); launches++; return 0; }
hipError_t hipGraphDestroy(void *g) { CALL; live[kGraph]--; return 0; }
hipError_t hipGraphExecDestroy(void *x) { CALL; live[kExec]--; return 0; }
hipError_t hipEventCreateWithFlags(void **e, unsigned f) { CALL; *e = (void *)0x7000; live[kEvent]++; return 0; }
hipError_t hipEventDestroy(void *e) { CALL; live[kEvent]--; return 0; }
hipError_t hipEventRecord(void *e, void *s) { CALL; if (!e) return fails(400); return 0; }
hipError_t hipEventSynchronize(void *e) { CALL; if (!e) return fails(400); return 0; }
hipError_t hipEventElapsedTime(float *ms, void *a, void *b) { CALL; *ms = 1.5f; return 0; }
hipError_t hipDeviceCanAccessPeer(int *can, int a, int b) { CALL; *can = a != b; return 0; }
hipError_t hipDeviceEnablePeerAccess(int peer, unsigned flags) {
  CALL;
  if (peers[current][peer]) return fails(704);
  peers[current][peer] = 1;
  return 0;
}
hipError_t hipDeviceDisablePeerAccess(int peer) {
  CALL;
  if (!peers[current][peer]) return fails(705);
  peers[current][peer] = 0;
  return 0;
}
struct handle { char bytes[64]; };
hipError_t hipIpcGetMemHandle(struct handle *h, void *p) { CALL; memset(h, 0, 64); memcpy(h, &p, 8); return 0; }
hipError_t hipIpcOpenMemHandle(void **p, struct handle h, unsigned flags) {
  CALL;
  if (flags != 1) return fails(kInvalidValue);
  memcpy(p, &h, 8);
  live[kShared]++;
  return 0;
}
hipError_t hipIpcCloseMemHandle(void *p) { CALL; live[kShared]--; return 0; }

// A tensor library with DLPack's exchange functions: all its tensors are this one.
struct tensor {
  void *data;
  int32_t device_type, device_id, ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
};
static float elements[256] __attribute__((aligned(64)));
static int64_t extent = 100, step = 1;
void *stub_elements(void) { return elements; }
void stub_tensor(int64_t count, int64_t stride) { extent = count, step = stride; }
static int read_tensor(void *object, struct tensor *out) {
  *out = (struct tensor){elements, 1, 0, 1, 2, 32, 1, &extent, &step, 0};
  return 0;
}
struct exchange {
  uint32_t major, minor;
  void *older, *allocate, *from_object, *to_object;
  int (*read)(void *, struct tensor *);
  void *stream;
};
struct exchange stub_exchange = {1, 3, 0, 0, 0, 0, read_tensor, 0};
