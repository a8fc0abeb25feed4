"""Names of kernels as Nsight Compute matches them."""

from __future__ import annotations

import pytest

from hypergauge.scheduler.profilers.kernels import base_name

# As Nsight Systems, Nsight Compute and PyTorch wrote them for the same training on an H200.
NAMES = {
    "gemm": "gemm",
    "void gemm<float>(float*)": "gemm",
    "triton_poi_fused_add_0": "triton_poi_fused_add_0",
    "void at::native::reduce_kernel<(int)512, at::native::<unnamed>::Sum>(T3)": "reduce_kernel",
    "void (anonymous namespace)::softmax_warp_forward<float, (int)10>(T2 *, const T1 *)": "softmax_warp_forward",
    "void at::elementwise_kernel<128, 2, void at::gpu_kernel_impl_nocast<at::CUDAFunctor_add<float>>(at::TensorIteratorBase &, "
    "const T1 &)::[lambda(int) (instance 1)]>(int, T3)": "elementwise_kernel",
    "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, float>(T13)": "kernel",
}


@pytest.mark.parametrize("full", NAMES)
def test_the_name_has_neither_namespace_nor_arguments(full: str) -> None:
    assert base_name(full) == NAMES[full]
