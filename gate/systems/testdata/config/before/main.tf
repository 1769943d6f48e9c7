resource "terraform_data" "keep" { input = "keep" }
resource "terraform_data" "grow" { input = 9 }
resource "terraform_data" "swap" { triggers_replace = ["a"] }
resource "terraform_data" "swap_first" {
  triggers_replace = ["a"]
  lifecycle { create_before_destroy = true }
}
resource "terraform_data" "old_name" { input = "x" }
resource "terraform_data" "left" { input = "x" }
resource "terraform_data" "gone" { input = "x" }
output "size" { value = terraform_data.grow.output }
