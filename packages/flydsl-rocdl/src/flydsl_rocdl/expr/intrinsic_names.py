"""Names of LLVM 22.1's AMDGPU intrinsics, without ``llvm.amdgcn.`` and without textures."""

from __future__ import annotations

__all__ = ["NAMES"]

NAMES = frozenset(
    """
add.max.i32 add.max.u32 add.min.i32 add.min.u32 addrspacecast.nonnull alignbyte ashr.pk.i8.i32
ashr.pk.u8.i32 ballot ballot.i64 bitop3 buffer.wbinvl1 buffer.wbinvl1.sc buffer.wbinvl1.vol
call.whole.wave class cluster.id.x cluster.id.y cluster.id.z cluster.load.async.to.lds.b128
cluster.load.async.to.lds.b32 cluster.load.async.to.lds.b64 cluster.load.async.to.lds.b8
cluster.load.b128 cluster.load.b32 cluster.load.b64 cluster.workgroup.flat.id
cluster.workgroup.id.x cluster.workgroup.id.y cluster.workgroup.id.z cluster.workgroup.max.flat.id
cluster.workgroup.max.id.x cluster.workgroup.max.id.y cluster.workgroup.max.id.z cos cs.chain
cubeid cubema cubesc cubetc cvt.f16.bf8 cvt.f16.fp8 cvt.f32.bf8 cvt.f32.fp8 cvt.f32.fp8.e5m3
cvt.off.f32.i4 cvt.pk.bf8.f16 cvt.pk.bf8.f32 cvt.pk.f16.bf8 cvt.pk.f16.fp8 cvt.pk.f32.bf8
cvt.pk.f32.fp8 cvt.pk.fp8.f16 cvt.pk.fp8.f32 cvt.pk.fp8.f32.e5m3 cvt.pk.i16 cvt.pk.u16
cvt.pk.u8.f32 cvt.pknorm.i16 cvt.pknorm.u16 cvt.pkrtz cvt.scale.pk16.bf16.bf6
cvt.scale.pk16.bf16.fp6 cvt.scale.pk16.f16.bf6 cvt.scale.pk16.f16.fp6 cvt.scale.pk16.f32.bf6
cvt.scale.pk16.f32.fp6 cvt.scale.pk8.bf16.bf8 cvt.scale.pk8.bf16.fp4 cvt.scale.pk8.bf16.fp8
cvt.scale.pk8.f16.bf8 cvt.scale.pk8.f16.fp4 cvt.scale.pk8.f16.fp8 cvt.scale.pk8.f32.bf8
cvt.scale.pk8.f32.fp4 cvt.scale.pk8.f32.fp8 cvt.scalef32.2xpk16.bf6.f32
cvt.scalef32.2xpk16.fp6.f32 cvt.scalef32.f16.bf8 cvt.scalef32.f16.fp8 cvt.scalef32.f32.bf8
cvt.scalef32.f32.fp8 cvt.scalef32.pk.bf16.bf8 cvt.scalef32.pk.bf16.fp4 cvt.scalef32.pk.bf16.fp8
cvt.scalef32.pk.bf8.bf16 cvt.scalef32.pk.bf8.f16 cvt.scalef32.pk.bf8.f32 cvt.scalef32.pk.f16.bf8
cvt.scalef32.pk.f16.fp4 cvt.scalef32.pk.f16.fp8 cvt.scalef32.pk.f32.bf8 cvt.scalef32.pk.f32.fp4
cvt.scalef32.pk.f32.fp8 cvt.scalef32.pk.fp4.bf16 cvt.scalef32.pk.fp4.f16 cvt.scalef32.pk.fp4.f32
cvt.scalef32.pk.fp8.bf16 cvt.scalef32.pk.fp8.f16 cvt.scalef32.pk.fp8.f32
cvt.scalef32.pk16.bf6.bf16 cvt.scalef32.pk16.bf6.f16 cvt.scalef32.pk16.bf6.f32
cvt.scalef32.pk16.fp6.bf16 cvt.scalef32.pk16.fp6.f16 cvt.scalef32.pk16.fp6.f32
cvt.scalef32.pk32.bf16.bf6 cvt.scalef32.pk32.bf16.fp6 cvt.scalef32.pk32.bf6.bf16
cvt.scalef32.pk32.bf6.f16 cvt.scalef32.pk32.f16.bf6 cvt.scalef32.pk32.f16.fp6
cvt.scalef32.pk32.f32.bf6 cvt.scalef32.pk32.f32.fp6 cvt.scalef32.pk32.fp6.bf16
cvt.scalef32.pk32.fp6.f16 cvt.scalef32.pk8.bf8.bf16 cvt.scalef32.pk8.bf8.f16
cvt.scalef32.pk8.bf8.f32 cvt.scalef32.pk8.fp4.bf16 cvt.scalef32.pk8.fp4.f16
cvt.scalef32.pk8.fp4.f32 cvt.scalef32.pk8.fp8.bf16 cvt.scalef32.pk8.fp8.f16
cvt.scalef32.pk8.fp8.f32 cvt.scalef32.sr.bf8.bf16 cvt.scalef32.sr.bf8.f16 cvt.scalef32.sr.bf8.f32
cvt.scalef32.sr.fp8.bf16 cvt.scalef32.sr.fp8.f16 cvt.scalef32.sr.fp8.f32
cvt.scalef32.sr.pk.fp4.bf16 cvt.scalef32.sr.pk.fp4.f16 cvt.scalef32.sr.pk.fp4.f32
cvt.scalef32.sr.pk16.bf6.bf16 cvt.scalef32.sr.pk16.bf6.f16 cvt.scalef32.sr.pk16.bf6.f32
cvt.scalef32.sr.pk16.fp6.bf16 cvt.scalef32.sr.pk16.fp6.f16 cvt.scalef32.sr.pk16.fp6.f32
cvt.scalef32.sr.pk32.bf6.bf16 cvt.scalef32.sr.pk32.bf6.f16 cvt.scalef32.sr.pk32.bf6.f32
cvt.scalef32.sr.pk32.fp6.bf16 cvt.scalef32.sr.pk32.fp6.f16 cvt.scalef32.sr.pk32.fp6.f32
cvt.scalef32.sr.pk8.bf8.bf16 cvt.scalef32.sr.pk8.bf8.f16 cvt.scalef32.sr.pk8.bf8.f32
cvt.scalef32.sr.pk8.fp4.bf16 cvt.scalef32.sr.pk8.fp4.f16 cvt.scalef32.sr.pk8.fp4.f32
cvt.scalef32.sr.pk8.fp8.bf16 cvt.scalef32.sr.pk8.fp8.f16 cvt.scalef32.sr.pk8.fp8.f32
cvt.sr.bf16.f32 cvt.sr.bf8.f16 cvt.sr.bf8.f32 cvt.sr.f16.f32 cvt.sr.fp8.f16 cvt.sr.fp8.f32
cvt.sr.fp8.f32.e5m3 cvt.sr.pk.bf16.f32 cvt.sr.pk.f16.f32 dead dispatch.id dispatch.ptr div.fixup
div.fmas div.scale dot4.f32.bf8.bf8 dot4.f32.bf8.fp8 dot4.f32.fp8.bf8 dot4.f32.fp8.fp8
ds.add.gs.reg.rtn ds.append ds.atomic.async.barrier.arrive.b64 ds.atomic.barrier.arrive.rtn.b64
ds.bpermute ds.bpermute.fi.b32 ds.bvh.stack.push4.pop1.rtn ds.bvh.stack.push8.pop1.rtn
ds.bvh.stack.push8.pop2.rtn ds.bvh.stack.rtn ds.consume ds.gws.barrier ds.gws.init ds.gws.sema.br
ds.gws.sema.p ds.gws.sema.release.all ds.gws.sema.v ds.load.tr16.b128 ds.load.tr4.b64
ds.load.tr6.b96 ds.load.tr8.b64 ds.ordered.add ds.ordered.swap ds.permute ds.read.tr16.b64
ds.read.tr4.b64 ds.read.tr6.b96 ds.read.tr8.b64 ds.sub.gs.reg.rtn ds.swizzle dynlds.offset.table
else end.cf endpgm exp exp.compr exp.row exp2 fcmp fdiv.fast fdot2 fdot2.bf16.bf16 fdot2.f16.f16
fdot2.f32.bf16 fdot2c.f32.bf16 flat.atomic.fmax.num flat.atomic.fmin.num flat.load.monitor.b128
flat.load.monitor.b32 flat.load.monitor.b64 flat.prefetch fma.legacy fmad.ftz fmed3 fmul.legacy
fract frexp.exp frexp.mant global.atomic.fmax.num global.atomic.fmin.num
global.atomic.ordered.add.b64 global.load.async.to.lds.b128 global.load.async.to.lds.b32
global.load.async.to.lds.b64 global.load.async.to.lds.b8 global.load.lds global.load.monitor.b128
global.load.monitor.b32 global.load.monitor.b64 global.load.tr.b128 global.load.tr.b64
global.load.tr4.b64 global.load.tr6.b96 global.prefetch global.store.async.from.lds.b128
global.store.async.from.lds.b32 global.store.async.from.lds.b64 global.store.async.from.lds.b8
groupstaticsize icmp if if.break iglp.opt implicit.buffer.ptr implicitarg.ptr init.exec
init.exec.from.input init.whole.wave interp.inreg.p10 interp.inreg.p10.f16 interp.inreg.p2
interp.inreg.p2.f16 interp.mov interp.p1 interp.p1.f16 interp.p10.rtz.f16 interp.p2 interp.p2.f16
interp.p2.rtz.f16 inverse.ballot is.private is.shared kernarg.segment.ptr kill lds.direct.load
lds.kernel.id lds.offset.table lds.param.load lerp live.mask load.to.lds log log.clamp loop
make.buffer.rsrc mbcnt.hi mbcnt.lo mfma.f32.16x16x16bf16.1k mfma.f32.16x16x16f16
mfma.f32.16x16x1f32 mfma.f32.16x16x2bf16 mfma.f32.16x16x32.bf16 mfma.f32.16x16x32.bf8.bf8
mfma.f32.16x16x32.bf8.fp8 mfma.f32.16x16x32.f16 mfma.f32.16x16x32.fp8.bf8
mfma.f32.16x16x32.fp8.fp8 mfma.f32.16x16x4bf16.1k mfma.f32.16x16x4f16 mfma.f32.16x16x4f32
mfma.f32.16x16x8.xf32 mfma.f32.16x16x8bf16 mfma.f32.32x32x16.bf16 mfma.f32.32x32x16.bf8.bf8
mfma.f32.32x32x16.bf8.fp8 mfma.f32.32x32x16.f16 mfma.f32.32x32x16.fp8.bf8
mfma.f32.32x32x16.fp8.fp8 mfma.f32.32x32x1f32 mfma.f32.32x32x2bf16 mfma.f32.32x32x2f32
mfma.f32.32x32x4.xf32 mfma.f32.32x32x4bf16 mfma.f32.32x32x4bf16.1k mfma.f32.32x32x4f16
mfma.f32.32x32x8bf16.1k mfma.f32.32x32x8f16 mfma.f32.4x4x1f32 mfma.f32.4x4x2bf16
mfma.f32.4x4x4bf16.1k mfma.f32.4x4x4f16 mfma.f64.16x16x4f64 mfma.f64.4x4x4f64 mfma.i32.16x16x16i8
mfma.i32.16x16x32.i8 mfma.i32.16x16x4i8 mfma.i32.16x16x64.i8 mfma.i32.32x32x16.i8
mfma.i32.32x32x32.i8 mfma.i32.32x32x4i8 mfma.i32.32x32x8i8 mfma.i32.4x4x4i8
mfma.scale.f32.16x16x128.f8f6f4 mfma.scale.f32.32x32x64.f8f6f4 module.lds mov.dpp mov.dpp8
mqsad.pk.u16.u8 mqsad.u32.u8 msad.u8 mul.i24 mul.u24 mulhi.i24 mulhi.u24 perm perm.pk16.b4.u4
perm.pk16.b6.u4 perm.pk16.b8.u4 permlane.bcast permlane.down permlane.idx.gen permlane.up
permlane.xor permlane16 permlane16.swap permlane16.var permlane32.swap permlane64 permlanex16
permlanex16.var pk.add.max.i16 pk.add.max.u16 pk.add.min.i16 pk.add.min.u16 pops.exiting.wave.id
prng.b32 ps.live qsad.pk.u16.u8 queue.ptr raw.atomic.buffer.load raw.buffer.atomic.add
raw.buffer.atomic.and raw.buffer.atomic.cmpswap raw.buffer.atomic.cond.sub.u32
raw.buffer.atomic.dec raw.buffer.atomic.fadd raw.buffer.atomic.fmax raw.buffer.atomic.fmin
raw.buffer.atomic.inc raw.buffer.atomic.or raw.buffer.atomic.smax raw.buffer.atomic.smin
raw.buffer.atomic.sub raw.buffer.atomic.sub.clamp.u32 raw.buffer.atomic.swap
raw.buffer.atomic.umax raw.buffer.atomic.umin raw.buffer.atomic.xor raw.buffer.load
raw.buffer.load.format raw.buffer.load.lds raw.buffer.store raw.buffer.store.format
raw.ptr.atomic.buffer.load raw.ptr.buffer.atomic.add raw.ptr.buffer.atomic.and
raw.ptr.buffer.atomic.cmpswap raw.ptr.buffer.atomic.cond.sub.u32 raw.ptr.buffer.atomic.dec
raw.ptr.buffer.atomic.fadd raw.ptr.buffer.atomic.fmax raw.ptr.buffer.atomic.fmin
raw.ptr.buffer.atomic.inc raw.ptr.buffer.atomic.or raw.ptr.buffer.atomic.smax
raw.ptr.buffer.atomic.smin raw.ptr.buffer.atomic.sub raw.ptr.buffer.atomic.sub.clamp.u32
raw.ptr.buffer.atomic.swap raw.ptr.buffer.atomic.umax raw.ptr.buffer.atomic.umin
raw.ptr.buffer.atomic.xor raw.ptr.buffer.load raw.ptr.buffer.load.format raw.ptr.buffer.load.lds
raw.ptr.buffer.store raw.ptr.buffer.store.format raw.ptr.tbuffer.load raw.ptr.tbuffer.store
raw.tbuffer.load raw.tbuffer.store rcp rcp.legacy readfirstlane readlane reloc.constant rsq
rsq.clamp rsq.legacy s.barrier s.barrier.init s.barrier.join s.barrier.leave s.barrier.signal
s.barrier.signal.isfirst s.barrier.signal.var s.barrier.wait s.bitreplicate s.buffer.load
s.buffer.prefetch.data s.cluster.barrier s.dcache.inv s.dcache.inv.vol s.dcache.wb s.dcache.wb.vol
s.decperflevel s.get.barrier.state s.get.named.barrier.state s.get.waveid.in.workgroup s.getpc
s.getreg s.incperflevel s.memrealtime s.memtime s.monitor.sleep s.nop s.prefetch.data s.quadmask
s.sendmsg s.sendmsg.rtn s.sendmsghalt s.sethalt s.setprio s.setprio.inc.wg s.setreg s.sleep
s.sleep.var s.ttracedata s.ttracedata.imm s.wait.asynccnt s.wait.bvhcnt s.wait.dscnt
s.wait.event.export.ready s.wait.expcnt s.wait.kmcnt s.wait.loadcnt s.wait.samplecnt
s.wait.storecnt s.wait.tensorcnt s.waitcnt s.wakeup.barrier s.wqm sad.hi.u8 sad.u16 sad.u8
sat.pk4.i4.i8 sat.pk4.u4.u8 sbfe sched.barrier sched.group.barrier sdot2 sdot4 sdot8 set.inactive
set.inactive.chain.arg sffbh sin smfmac.f32.16x16x128.bf8.bf8 smfmac.f32.16x16x128.bf8.fp8
smfmac.f32.16x16x128.fp8.bf8 smfmac.f32.16x16x128.fp8.fp8 smfmac.f32.16x16x32.bf16
smfmac.f32.16x16x32.f16 smfmac.f32.16x16x64.bf16 smfmac.f32.16x16x64.bf8.bf8
smfmac.f32.16x16x64.bf8.fp8 smfmac.f32.16x16x64.f16 smfmac.f32.16x16x64.fp8.bf8
smfmac.f32.16x16x64.fp8.fp8 smfmac.f32.32x32x16.bf16 smfmac.f32.32x32x16.f16
smfmac.f32.32x32x32.bf16 smfmac.f32.32x32x32.bf8.bf8 smfmac.f32.32x32x32.bf8.fp8
smfmac.f32.32x32x32.f16 smfmac.f32.32x32x32.fp8.bf8 smfmac.f32.32x32x32.fp8.fp8
smfmac.f32.32x32x64.bf8.bf8 smfmac.f32.32x32x64.bf8.fp8 smfmac.f32.32x32x64.fp8.bf8
smfmac.f32.32x32x64.fp8.fp8 smfmac.i32.16x16x128.i8 smfmac.i32.16x16x64.i8 smfmac.i32.32x32x32.i8
smfmac.i32.32x32x64.i8 softwqm sqrt strict.wqm strict.wwm struct.atomic.buffer.load
struct.buffer.atomic.add struct.buffer.atomic.and struct.buffer.atomic.cmpswap
struct.buffer.atomic.cond.sub.u32 struct.buffer.atomic.dec struct.buffer.atomic.fadd
struct.buffer.atomic.fmax struct.buffer.atomic.fmin struct.buffer.atomic.inc
struct.buffer.atomic.or struct.buffer.atomic.smax struct.buffer.atomic.smin
struct.buffer.atomic.sub struct.buffer.atomic.sub.clamp.u32 struct.buffer.atomic.swap
struct.buffer.atomic.umax struct.buffer.atomic.umin struct.buffer.atomic.xor struct.buffer.load
struct.buffer.load.format struct.buffer.load.lds struct.buffer.store struct.buffer.store.format
struct.ptr.atomic.buffer.load struct.ptr.buffer.atomic.add struct.ptr.buffer.atomic.and
struct.ptr.buffer.atomic.cmpswap struct.ptr.buffer.atomic.cond.sub.u32
struct.ptr.buffer.atomic.dec struct.ptr.buffer.atomic.fadd struct.ptr.buffer.atomic.fmax
struct.ptr.buffer.atomic.fmin struct.ptr.buffer.atomic.inc struct.ptr.buffer.atomic.or
struct.ptr.buffer.atomic.smax struct.ptr.buffer.atomic.smin struct.ptr.buffer.atomic.sub
struct.ptr.buffer.atomic.sub.clamp.u32 struct.ptr.buffer.atomic.swap struct.ptr.buffer.atomic.umax
struct.ptr.buffer.atomic.umin struct.ptr.buffer.atomic.xor struct.ptr.buffer.load
struct.ptr.buffer.load.format struct.ptr.buffer.load.lds struct.ptr.buffer.store
struct.ptr.buffer.store.format struct.ptr.tbuffer.load struct.ptr.tbuffer.store
struct.tbuffer.load struct.tbuffer.store sudot4 sudot8 sw.lds.base.table sw.lds.offset.table
swmmac.bf16.16x16x32.bf16 swmmac.bf16.16x16x64.bf16 swmmac.bf16f32.16x16x64.bf16
swmmac.f16.16x16x128.bf8.bf8 swmmac.f16.16x16x128.bf8.fp8 swmmac.f16.16x16x128.fp8.bf8
swmmac.f16.16x16x128.fp8.fp8 swmmac.f16.16x16x32.f16 swmmac.f16.16x16x64.f16
swmmac.f32.16x16x128.bf8.bf8 swmmac.f32.16x16x128.bf8.fp8 swmmac.f32.16x16x128.fp8.bf8
swmmac.f32.16x16x128.fp8.fp8 swmmac.f32.16x16x32.bf16 swmmac.f32.16x16x32.bf8.bf8
swmmac.f32.16x16x32.bf8.fp8 swmmac.f32.16x16x32.f16 swmmac.f32.16x16x32.fp8.bf8
swmmac.f32.16x16x32.fp8.fp8 swmmac.f32.16x16x64.bf16 swmmac.f32.16x16x64.f16
swmmac.i32.16x16x128.iu8 swmmac.i32.16x16x32.iu4 swmmac.i32.16x16x32.iu8 swmmac.i32.16x16x64.iu4
tanh tensor.load.to.lds tensor.load.to.lds.d2 tensor.store.from.lds tensor.store.from.lds.d2
trig.preop ubfe udot2 udot4 udot8 unreachable update.dpp wave.barrier wave.id wave.reduce.add
wave.reduce.and wave.reduce.fadd wave.reduce.fmax wave.reduce.fmin wave.reduce.fsub
wave.reduce.max wave.reduce.min wave.reduce.or wave.reduce.sub wave.reduce.umax wave.reduce.umin
wave.reduce.xor wave.shuffle wavefrontsize wmma.bf16.16x16x16.bf16 wmma.bf16.16x16x16.bf16.tied
wmma.bf16.16x16x32.bf16 wmma.bf16f32.16x16x32.bf16 wmma.f16.16x16x128.bf8.bf8
wmma.f16.16x16x128.bf8.fp8 wmma.f16.16x16x128.fp8.bf8 wmma.f16.16x16x128.fp8.fp8
wmma.f16.16x16x16.f16 wmma.f16.16x16x16.f16.tied wmma.f16.16x16x32.f16 wmma.f16.16x16x64.bf8.bf8
wmma.f16.16x16x64.bf8.fp8 wmma.f16.16x16x64.fp8.bf8 wmma.f16.16x16x64.fp8.fp8
wmma.f32.16x16x128.bf8.bf8 wmma.f32.16x16x128.bf8.fp8 wmma.f32.16x16x128.f8f6f4
wmma.f32.16x16x128.fp8.bf8 wmma.f32.16x16x128.fp8.fp8 wmma.f32.16x16x16.bf16
wmma.f32.16x16x16.bf8.bf8 wmma.f32.16x16x16.bf8.fp8 wmma.f32.16x16x16.f16
wmma.f32.16x16x16.fp8.bf8 wmma.f32.16x16x16.fp8.fp8 wmma.f32.16x16x32.bf16 wmma.f32.16x16x32.f16
wmma.f32.16x16x4.f32 wmma.f32.16x16x64.bf8.bf8 wmma.f32.16x16x64.bf8.fp8 wmma.f32.16x16x64.fp8.bf8
wmma.f32.16x16x64.fp8.fp8 wmma.f32.32x16x128.f4 wmma.i32.16x16x16.iu4 wmma.i32.16x16x16.iu8
wmma.i32.16x16x32.iu4 wmma.i32.16x16x64.iu8 wmma.scale.f32.16x16x128.f8f6f4
wmma.scale.f32.32x16x128.f4 wmma.scale16.f32.16x16x128.f8f6f4 wmma.scale16.f32.32x16x128.f4
workgroup.id.x workgroup.id.y workgroup.id.z workitem.id.x workitem.id.y workitem.id.z wqm
wqm.demote wqm.vote writelane wwm
""".split()
)
