resource "terraform_data" "inner" { input = "m" }
