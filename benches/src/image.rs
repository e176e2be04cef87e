//! The kernels of the benchmarks, `benches/kernels/*.cu`.

use crate::args;

ggas_kernels::kernels! {
    pub(crate) static KERNELS = [
        bench_pingpong_notification(args::bench_pingpong),
        bench_pingpong_poll(args::bench_pingpong),
        bench_card_stores_send(args::bench_card_stores),
        bench_velo_message(args::bench_pingpong),
        bench_velo_notification(args::bench_pingpong),
        bench_host_assisted(args::bench_assisted),
        bench_bandwidth_notification(args::bench_bandwidth),
        bench_rate_send(args::bench_rate),
        bench_rate_receive(args::bench_rate),
        bench_ggas_write(args::bench_ggas_pingpong),
        bench_ggas_read(args::bench_ggas_pingpong),
        bench_ggas_store(args::bench_ggas_bandwidth),
        bench_ggas_load(args::bench_ggas_bandwidth),
        bench_put_signal(args::bench_put),
        bench_put_packed(args::bench_put),
        bench_get(args::bench_put),
        bench_put_stream(args::bench_put_bandwidth),
        bench_put_messages(args::bench_put_rate),
        bench_overlap_rounds(args::bench_overlap),
        bench_atomics_random(args::bench_atomics),
        bench_litmus_rounds(args::bench_litmus),
        bench_litmus_post_rounds(args::bench_litmus_post),
        bench_barrier_rounds(args::bench_barrier),
        bench_barrier_relaunched(args::bench_relaunch),
        bench_barrier_between(args::bench_relaunch),
        bench_reduce_packed(args::bench_reduce),
        bench_reduce_staged(args::bench_reduce),
        bench_allreduce_packed(args::bench_reduce),
        bench_allreduce_staged(args::bench_reduce),
        bench_collective(args::bench_reduce),
        bench_global_sum(args::bench_global),
        bench_random_ggas(args::bench_random),
        bench_random_atomics(args::bench_random),
        bench_random_rma(args::bench_random),
    ];
}
