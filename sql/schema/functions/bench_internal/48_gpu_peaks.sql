-- Dense peaks of GPU models, without structured sparsity.

-- Return the peaks of GPU models in FLOPS: of FP16 and BF16 in tensor or matrix cores with accumulation in FP32, of TF32, of FP32
-- outside tensor cores, and of FP8. Null where a GPU lacks the format. `pattern` matches names as drivers report them; the first
-- match counts. `slices` are the compute slices under MIG. Each row is from the vendor's document in `source`, where a figure
-- with sparsity is halved. A device of an MI250 or MI250X is one of its two dies, as ROCm lists them.
create or replace function bench_internal.gpu_peak_list()
returns table (model text, pattern text, fp16 float8, tf32 float8, fp32 float8, fp8 float8, slices integer, source text)
language sql immutable rows 32 as $$
    values ('B200', '\mB200\M', 2250e12, 1100e12, 75e12, 4500e12, 7, 'NVIDIA Blackwell data sheet, HGX B200'),
           ('GB200', '\mGB200\M', 2500e12, 1250e12, 80e12, 5000e12, 7, 'NVIDIA Blackwell data sheet, GB200 NVL72'),
           ('H200 NVL', '\mH200 NVL\M', 835.5e12, 417.5e12, 60e12, 1670.5e12, 7, 'NVIDIA H200 data sheet'),
           ('H200', '\mG?H200\M', 989.5e12, 494.5e12, 67e12, 1979e12, 7, 'NVIDIA H200 and GH200 data sheets'),
           ('H100 PCIe', '\mH100 PCIe\M', 756.5e12, 378e12, 51e12, 1513e12, 7, 'NVIDIA H100 data sheet of 2022'),
           ('H100 NVL', '\mH100 NVL\M', 835.5e12, 417.5e12, 60e12, 1670.5e12, 7, 'NVIDIA H100 data sheet'),
           ('H100 SXM', '\mH100\M', 989.5e12, 494.5e12, 67e12, 1979e12, 7, 'NVIDIA H100 data sheet'),
           ('A100', '\mA100\M', 312e12, 156e12, 19.5e12, null, 7, 'NVIDIA A100 data sheet'),
           ('A30', '\mA30\M', 165e12, 82e12, 10.3e12, null, 4, 'NVIDIA A30 data sheet'),
           ('A40', '\mA40\M', 149.7e12, 74.8e12, 37.4e12, null, null, 'NVIDIA A40 data sheet'),
           ('A10', '\mA10\M', 125e12, 62.5e12, 31.2e12, null, null, 'NVIDIA A10 data sheet'),
           ('L40S', '\mL40S\M', 362.05e12, 183e12, 91.6e12, 733e12, null, 'NVIDIA L40S data sheet'),
           ('L40', '\mL40\M', 181.05e12, 90.5e12, 90.5e12, 362e12, null, 'NVIDIA L40 data sheet'),
           ('L4', '\mL4\M', 121e12, 60e12, 30.3e12, 242.5e12, null, 'NVIDIA L4 data sheet'),
           ('V100S', '\mV100S\M', 130e12, null, 16.4e12, null, null, 'NVIDIA V100 data sheet'),
           ('V100 PCIe', '\mV100-PCIE\M', 112e12, null, 14e12, null, null, 'NVIDIA V100 data sheet'),
           ('V100 SXM2', '\mV100-SXM', 125e12, null, 15.7e12, null, null, 'NVIDIA V100 data sheet'),
           ('T4', '\mT4\M', 65e12, null, 8.1e12, null, null, 'NVIDIA T4 data sheet'),
           ('RTX 5090', '\mRTX 5090$', 209.5e12, 104.8e12, 104.8e12, 419e12, null, 'NVIDIA RTX Blackwell GPU architecture, appendix A'),
           ('RTX 4090', '\mRTX 4090$', 165.2e12, 82.6e12, 82.6e12, 330.3e12, null, 'NVIDIA Ada GPU architecture, appendix A'),
           ('RTX 3090', '\mRTX 3090$', 71e12, 35.6e12, 35.6e12, null, null, 'NVIDIA Ampere GA102 GPU architecture, appendix A'),
           ('MI325X', '\mMI325X\M', 1307.4e12, 653.7e12, 163.4e12, 2614.9e12, null, 'AMD Instinct MI325X data sheet'),
           ('MI300X', '\mMI300X\M', 1307.4e12, 653.7e12, 163.4e12, 2614.9e12, null, 'AMD Instinct MI300X data sheet'),
           ('MI250X', '\mMI250X\M', 191.5e12, null, 23.95e12, null, null, 'AMD Instinct MI200 data sheet'),
           ('MI250', '\mMI250\M', 181.05e12, null, 22.65e12, null, null, 'AMD Instinct MI200 data sheet'),
           ('MI210', '\mMI210\M', 181e12, null, 22.6e12, null, null, 'AMD Instinct MI210 data sheet')
$$;
