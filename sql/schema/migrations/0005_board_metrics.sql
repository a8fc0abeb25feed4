-- Figures of a whole board, which dcgm-exporter repeats on each of its MIG instances: power, temperatures, clocks.
-- They belong to the GPU, and what is said several times of one GPU counts once.
alter table metrics add column board boolean not null default false;
